"""What slowfs really injected, counted by itself: the truth other tools are compared with.

All times are CLOCK_MONOTONIC nanoseconds, measured around the sleep rather than taken from the
settings. A sample: ``{"classes": {"read": {"count": 40, "bytes": 40960, "delay_ns": 41000000}},
"delayed_wall_ns": 11000000, "spikes": [{"start_ns": 1, "end_ns": 2, "count": 4, "delay_ns": 3}]}``.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

KEPT_SPIKES = 400
"""Windows kept; the ledger must fit into one extended attribute (64 KiB)."""


@dataclass
class OpCount:
    """Sums over the requests of one class."""

    count: int = 0
    bytes: int = 0
    delay_ns: int = 0
    errors: int = 0


@dataclass
class SpikeWindow:
    """One spike window in which at least one request was held up longer."""

    start_ns: int
    end_ns: int
    count: int = 0
    delay_ns: int = 0


@dataclass
class Ledger:
    """Counts of all requests; safe to use from many threads."""

    classes: dict[str, OpCount] = field(default_factory=dict)
    spikes: list[SpikeWindow] = field(default_factory=list)
    delayed_wall_ns: int = 0
    _sleepers: int = 0
    _sleeping_since_ns: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sleep(self, seconds: float) -> int:
        """Sleep and return how long it really took in ns; the union over threads is kept."""
        if seconds <= 0:
            return 0
        start_ns = self._enter()
        time.sleep(seconds)
        return self._leave() - start_ns

    def wait(self, condition: threading.Condition) -> int:
        """As :meth:`sleep`, until `condition` (held by the caller) is notified."""
        start_ns = self._enter()
        condition.wait()
        return self._leave() - start_ns

    def add(self, op_class: str, n_bytes: int = 0, delay_ns: int = 0, errors: int = 0) -> None:
        """Count one request."""
        with self._lock:
            entry = self.classes.setdefault(op_class, OpCount())
            entry.count += 1
            entry.bytes += n_bytes
            entry.delay_ns += delay_ns
            entry.errors += errors

    def add_spike(self, start_ns: int, end_ns: int, delay_ns: int) -> None:
        """Count one request of the window that began at `start_ns`."""
        with self._lock:
            if not any(window.start_ns == start_ns for window in self.spikes[-2:]):
                self.spikes = [*self.spikes[-(KEPT_SPIKES - 1) :], SpikeWindow(start_ns, end_ns)]
            window = next(w for w in reversed(self.spikes) if w.start_ns == start_ns)
            window.count += 1
            window.delay_ns += delay_ns

    def to_dict(self) -> dict[str, Any]:
        """A copy for JSON; requests asleep at this moment count up to now in delayed_wall_ns."""
        with self._lock:
            now_ns = time.monotonic_ns()
            running_ns = now_ns - self._sleeping_since_ns if self._sleepers else 0
            return {
                "mono_ns": now_ns,
                "classes": {name: asdict(entry) for name, entry in self.classes.items()},
                "delayed_wall_ns": self.delayed_wall_ns + running_ns,
                "asleep": self._sleepers,
                "spikes": [asdict(window) for window in self.spikes],
            }

    def _enter(self) -> int:
        now_ns = time.monotonic_ns()
        with self._lock:
            if self._sleepers == 0:
                self._sleeping_since_ns = now_ns
            self._sleepers += 1
        return now_ns

    def _leave(self) -> int:
        now_ns = time.monotonic_ns()
        with self._lock:
            self._sleepers -= 1
            if self._sleepers == 0:
                self.delayed_wall_ns += now_ns - self._sleeping_since_ns
        return now_ns
