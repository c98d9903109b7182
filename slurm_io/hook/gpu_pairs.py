"""Pairs of events for :mod:`.gpu_idle`: a small pool for each device, made once and used again."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PAIRS = 8
"""Pairs a device: a second event completes at once, for the stream is idle when it is recorded."""
_MOST_DEVICES = 16


class Pair:
    """Two events, and the stream they are recorded on. `beside`: the same for the stream that
    trains, where the current one is another."""

    __slots__ = ("device", "start", "end", "stream", "beside")

    def __init__(self, event: Any, device: Any) -> None:
        self.device = device
        self.start = event(enable_timing=True)
        self.end = event(enable_timing=True)
        self.stream: Any = None
        self.beside: Pair | None = None

    def is_busy(self) -> bool:
        """Has either stream still work from before the wait?"""
        beside = self.beside
        return not self.start.query() or (beside is not None and not beside.start.query())

    def finish(self) -> None:
        """Record the second event, on the streams of the first."""
        self.end.record(self.stream)
        if self.beside is not None:
            self.beside.end.record(self.beside.stream)

    def idle_ns(self) -> int | None:
        """Time between the events, the shorter of both streams'; None: not complete yet."""
        if not self.end.query():
            return None
        idle_ms = self.start.elapsed_time(self.end)
        beside = self.beside
        if beside is not None:
            if not beside.end.query():
                return None
            idle_ms = min(idle_ms, beside.start.elapsed_time(beside.end))
        return max(0, int(idle_ms * 1e6))  # two clocks of a GPU may disagree by a little


class Pairs:
    """The free pairs of all devices. `event`: torch's class; nothing is recorded here."""

    def __init__(self, event: Any) -> None:
        self._event = event
        self._free: dict[Any, list[Pair]] = {}

    def take(self, device: Any, beside: bool) -> Pair | None:
        """A pair, with one beside it if asked for; None: too few are free."""
        free = self._free.get(device)
        if free is None:
            if len(self._free) >= _MOST_DEVICES:
                return None
            free = self._free[device] = [Pair(self._event, device) for _ in range(PAIRS)]
        if len(free) < 1 + beside:
            return None
        pair = free.pop()
        if beside:
            pair.beside = free.pop()
        return pair

    def give_back(self, pair: Pair) -> None:
        """It, and the one beside it, are free again."""
        free = self._free[pair.device]
        free.append(pair)
        if pair.beside is not None:
            free.append(pair.beside)
            pair.beside = None
