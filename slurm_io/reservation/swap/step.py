"""One step of a swap, and the case it works on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from slurm_io.reservation.swap.journal import Event, Journal
from slurm_io.reservation.swap.lock import Lock
from slurm_io.reservation.swap.model import Facts, Wish, facts_from
from slurm_io.reservation.swap.world import World


class Case:
    """One swap under way. Without journal and lock (dry run) nothing can be changed by it."""

    def __init__(
        self,
        world: World,
        wish: Wish,
        facts: Facts,
        journal: Journal | None = None,
        lock: Lock | None = None,
    ) -> None:
        self.world = world
        self.wish = wish
        self.facts = facts
        self.step = ""
        self.acted = False
        self._journal = journal
        self._lock = lock

    @property
    def is_dry(self) -> bool:
        """Whether nothing may be changed."""
        return self._journal is None

    def intend(self, text: str, **facts: Any) -> None:
        """Say what will be changed now, and keep what must be known to take it back."""
        assert self._journal is not None, "a dry run changes nothing"
        self._write("intent", text, facts)
        self.acted = True
        self.facts = facts_from(facts, self.facts)

    def learn(self, text: str = "", **facts: Any) -> None:
        """Keep what was found out or came of a change."""
        self._write("done", text, facts)
        self.facts = facts_from(facts, self.facts)

    def report(self, event: Event, text: str) -> None:
        """A step's end, without facts."""
        self._write(event, text, {})

    def keep_lock(self) -> None:
        """While waiting. Raises LockLost when somebody else holds the lock."""
        if self._lock is not None:
            self._lock.renew()

    def note(self, text: str) -> None:
        """Something that people should read in the end."""
        if text not in self.facts.notes:
            self.learn(text, notes=(*self.facts.notes, text))

    def spent(self, phase: str, seconds: float) -> None:
        """Seconds of one phase, for the history; a dry run has none."""
        if seconds >= 0 and not self.is_dry:
            self.learn(phases={**self.facts.phases, phase: round(seconds, 3)})

    def wait(self, check: Callable[[], bool], limit_s: float) -> bool:
        """Look until `check` is true; False when it is not within the limit."""
        clock = self.world.clock
        deadline_s = clock.now_s() + limit_s
        while not check():
            if clock.now_s() >= deadline_s:
                return False
            self.keep_lock()
            clock.sleep(self.world.poll_s)
        return True

    def forget_spare(self, why: str) -> None:
        """This spare cannot take over: the next one is looked for."""
        assert self.facts.spare is not None
        tried = (*self.facts.tried, (self.facts.spare, why))
        self.learn(why, tried=tried, spare=None, verified_at_s=None, moved=False)

    def _write(self, event: Event, text: str, facts: Mapping[str, Any]) -> None:
        """Nobody writes into a journal that somebody else goes on with by now."""
        if self._journal is not None:
            self.keep_lock()
            self._journal.write(self.step, event, text, facts)


class Step(Protocol):
    """Each may be run again at any time: it looks at the world first."""

    name: str

    def is_done(self, case: Case) -> str | None:
        """Why there is nothing to do; None when there is."""

    def would(self, case: Case) -> str:
        """What :meth:`do` would do. Reads only."""

    def do(self, case: Case) -> str:
        """Do it; what was done."""

    def undo(self, case: Case) -> str | None:
        """Take back what can be; what was taken back, None = nothing."""
