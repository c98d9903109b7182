"""The sampler's life: sleep to the next deadline, do what is due, stop when told or alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from slurm_io.sampler.grid import Grid, Passes
from slurm_io.sampler.paces import FACTS, Pace

_NS = 1_000_000_000
_FACTS_EVERY_S = 30.0


class Sampled(Protocol):
    """What the loop drives; :class:`slurm_io.sampler.session.Session` is one."""

    def sample_waits(self, mono_ns: int) -> None:
        """One waits pass."""

    def tick(self, mono_ns: int, slack_ns: int) -> None:
        """One tick of the counters."""

    def govern(self, now_s: float) -> Pace:
        """The pace from now on."""

    def processes(self) -> int:
        """Living processes of the job."""

    def finish(self, mono_ns: int) -> None:
        """Last tick and close."""

    def write_facts(self, grid: Grid, mono_ns: int, end_reason: str | None) -> None:
        """Replace meta.json and self.json."""


class Loop:
    """Runs to its end.

    Args:
        session: what is sampled.
        interval_s: length of the grid.
        waits_hz: passes a second to begin with.
        monotonic_ns: the clock.
        wait: sleeps some seconds; True when a stop was asked for.
        end_reason: says why to end by itself, given the time and the number of processes.
        uniform: random numbers in [0, 1).
    """

    def __init__(
        self,
        session: Sampled,
        interval_s: float,
        waits_hz: float,
        monotonic_ns: Callable[[], int],
        wait: Callable[[float], bool],
        end_reason: Callable[[float, int], str | None],
        uniform: Callable[[], float],
    ) -> None:
        self._session = session
        self._monotonic_ns = monotonic_ns
        self._wait = wait
        self._end_reason = end_reason
        self._interval_s = interval_s
        start_s = self._now_s()
        self.grid = Grid(start_s, interval_s)
        self._passes = Passes(start_s, waits_hz, uniform)
        self._facts_at_s = start_s
        self._reason: str | None = None

    def run(self) -> str:
        """Until the end; why it came. Called again when it was left in the middle, it goes on."""
        self._session.write_facts(self.grid, self._monotonic_ns(), None)
        while self._reason is None:
            due_s = min(self.grid.deadline_s, self._passes.deadline_s)
            is_told = self._wait(due_s - self._now_s())
            self._reason = "told to stop" if is_told else self._do_what_is_due()
        reason = self._reason
        self._session.finish(self._monotonic_ns())
        self._session.write_facts(self.grid, self._monotonic_ns(), reason)
        return reason

    def _do_what_is_due(self) -> str | None:
        now_s = self._now_s()
        if now_s >= self._passes.deadline_s:
            self._session.sample_waits(self._monotonic_ns())
            self._passes.take(now_s)
        if now_s < self.grid.deadline_s:
            return None
        self.grid.take(now_s)
        self._session.tick(self._monotonic_ns(), int(self._interval_s * _NS / 2))
        pace = self._session.govern(now_s)
        self._passes.set_rate(pace.passes_hz, now_s)
        if now_s - self._facts_at_s >= _FACTS_EVERY_S * pace.factor(FACTS):
            self._facts_at_s = now_s
            self._session.write_facts(self.grid, self._monotonic_ns(), None)
        return self._end_reason(now_s, self._session.processes())

    def _now_s(self) -> float:
        return self._monotonic_ns() / _NS
