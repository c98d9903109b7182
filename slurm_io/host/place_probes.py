"""Asks several places (mounts, tools) that may each hang, in one child after the other.

A place that hangs costs its own answer and no other's: the child behind it asks those that were not
asked yet. As long as a killed child still sleeps at a place (state D) none follows it there; with
eight of them asleep (or `most_stuck`) no place is asked at all: whoever can make mounts that hang
can make many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_io.host.probe import Answer, Call, Probe

_MOST_STUCK = 8
_MOST_FAILURES = 256


class PlaceProbes:
    """One round of questions at a time; :meth:`take` gathers answers and never waits.

    Attributes:
        failures: by place, how often it gave no answer and the last reason why.
    """

    def __init__(self, timeout_s: float, most_stuck: int = _MOST_STUCK) -> None:
        self.failures: dict[str, dict[str, Any]] = {}
        self._timeout_s = timeout_s
        self._most_stuck = most_stuck
        self._calls: dict[str, Call] = {}
        self._probe: Probe | None = None
        self._stuck: dict[str, Probe] = {}

    @property
    def is_asking(self) -> bool:
        """True while answers of the last round are still to come."""
        return self._probe is not None

    def ask(self, calls: Mapping[str, Call]) -> None:
        """Start a round: one call for each place. What an unfinished round still owed is lost."""
        self.stop()
        self._stuck = {place: one for place, one in self._stuck.items() if one.still_stuck()}
        self._start({place: call for place, call in calls.items() if self._is_free(place)})

    def take(self) -> dict[str, Any]:
        """Values that came since the last call, by place; failures are noted, not returned."""
        probe = self._probe
        if probe is None:
            return {}
        probe.poll()
        if not probe.finished:
            return {}
        values = {}
        unasked = {}
        for (place, call), answer in zip(self._calls.items(), probe.answers, strict=True):
            if answer is None:
                unasked[place] = call
            elif answer.state == "ok":
                values[place] = answer.value
            else:
                self._note_failure(place, answer, probe)
        self._start(unasked if len(self._stuck) < self._most_stuck else {})
        return values

    def stop(self) -> None:
        """Kill the child, if one is asking."""
        if self._probe is not None:
            self._probe.stop()
            self._probe = None

    def _start(self, calls: dict[str, Call]) -> None:
        self._calls = calls
        self._probe = Probe(calls.values(), self._timeout_s) if calls else None

    def _note_failure(self, place: str, answer: Answer, probe: Probe) -> None:
        self._note(place, answer.reason)
        if answer.abandoned_pid is not None:
            self._stuck[place] = probe

    def _is_free(self, place: str) -> bool:
        stuck = self._stuck.get(place)
        if stuck is not None:
            self._note(place, f"child {stuck.abandoned_pid} still hangs there")
        elif len(self._stuck) >= self._most_stuck:
            self._note(place, f"not asked: {len(self._stuck)} children hang elsewhere")
        else:
            return True
        return False

    def _note(self, place: str, reason: str) -> None:
        count = int(self.failures.get(place, {}).get("count", 0))
        self.failures[place] = {"count": count + 1, "reason": reason}
        while len(self.failures) > _MOST_FAILURES:
            del self.failures[next(iter(self.failures))]
