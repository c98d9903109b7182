"""When to do what: ticks on an absolute grid, passes at random moments between them.

A tick that comes late is counted; one that was missed altogether is skipped and never made up for.
Passes fall at a uniformly random moment of each slot of 1/hz seconds: a training step that happens
to last as long as the slot could otherwise be seen in one and the same phase for ever.
All times are CLOCK_MONOTONIC seconds.
"""

from __future__ import annotations

from collections.abc import Callable

_LATE_SHARE = 0.1


class Grid:
    """Deadlines start + k · interval."""

    def __init__(self, start_s: float, interval_s: float) -> None:
        self._start_s = start_s
        self._interval_s = interval_s
        self._k = 1
        self.ticks = 0
        self.late_ticks = 0
        self.late_max_s = 0.0
        self.missed_ticks = 0

    @property
    def deadline_s(self) -> float:
        """When the next tick is due."""
        return self._start_s + self._k * self._interval_s

    def take(self, now_s: float) -> None:
        """The due tick is done now: note its lateness, go on to the next deadline ahead."""
        late_s = max(0.0, now_s - self.deadline_s)
        self.ticks += 1
        self.late_max_s = max(self.late_max_s, late_s)
        self.late_ticks += late_s > _LATE_SHARE * self._interval_s
        missed = int(late_s / self._interval_s)
        self.missed_ticks += missed
        self._k += 1 + missed


class Passes:
    """Moments of the waits passes. `uniform` returns a random number in [0, 1)."""

    def __init__(self, start_s: float, hz: float, uniform: Callable[[], float]) -> None:
        self._slot_start_s = start_s
        self._hz = hz
        self._uniform = uniform
        self._deadline_s = self._place()

    @property
    def deadline_s(self) -> float:
        """When the next pass is due."""
        return self._deadline_s

    def take(self, now_s: float) -> None:
        """A pass was made now: the next one falls into the next slot that has not begun yet."""
        slot_s = 1.0 / self._hz
        slots = max(1, int((now_s - self._slot_start_s) / slot_s))
        self._slot_start_s += slots * slot_s
        self._deadline_s = self._place()

    def set_rate(self, hz: float, now_s: float) -> None:
        """Another rate from now on."""
        if hz != self._hz:
            self._hz = hz
            self._slot_start_s = now_s
            self._deadline_s = self._place()

    def _place(self) -> float:
        return self._slot_start_s + self._uniform() / self._hz
