"""Decides how long one slowfs request is held up, and holds it up.

Constant latency, latency by file, recall of evicted files, spikes and the shared bandwidth add
up to one sleep per request; a hang lasts until new settings release it.
"""

from __future__ import annotations

import errno
import threading
import time
from dataclasses import dataclass

from tests.labs.slowfs_ledger import Ledger
from tests.labs.slowfs_settings import OpClass, SlowFsSettings, matches

NS = 1_000_000_000


@dataclass(frozen=True)
class Spike:
    """The spike window a request fell into."""

    start_ns: int
    end_ns: int


def spike_at(settings: SlowFsSettings, since_ns: int, now_ns: int) -> Spike | None:
    """The window open at `now_ns` under settings that came into force at `since_ns`."""
    if not settings.spike_period_s:
        return None
    period_ns = int(settings.spike_period_s * NS)
    first_ns = since_ns + int(settings.spike_offset_s * NS)
    if now_ns < first_ns:
        return None
    start_ns = now_ns - (now_ns - first_ns) % period_ns
    end_ns = start_ns + int(settings.spike_duration_s * NS)
    return Spike(start_ns, end_ns) if now_ns < end_ns else None


class Faults:
    """The settings in force and the ledger of what they caused."""

    def __init__(self, settings: SlowFsSettings) -> None:
        self.settings = settings
        self.ledger = Ledger()
        self._since_ns = time.monotonic_ns()
        self._changed = threading.Condition()
        self._lock = threading.Lock()
        self._recalled: set[str] = set()
        self._line_free_ns = 0

    def change(self, settings: SlowFsSettings) -> None:
        """Put new settings into force; requests that no longer hang go on."""
        with self._changed:
            if settings.recall_generation != self.settings.recall_generation:
                self._recalled.clear()
            self.settings = settings
            self._since_ns = time.monotonic_ns()
            self._changed.notify_all()

    def enter(self, op_class: OpClass, path: str) -> None:
        """Called before a request is served: hangs, or raises the OSError that is asked for."""
        with self._changed:
            while self._hangs(op_class, path):
                self.ledger.add("hang", delay_ns=self.ledger.wait(self._changed))
        if op_class == "read" and matches(path, self.settings.read_error_globs):
            self._fail(op_class, errno.EIO)

    def check_space(self) -> None:
        """Raises ENOSPC when the file system is to be full."""
        if self.settings.no_space:
            self._fail("write", errno.ENOSPC)

    def delay(self, op_class: OpClass, path: str, n_bytes: int = 0) -> None:
        """Hold the request up as the settings say and count it."""
        settings = self.settings
        now_ns = time.monotonic_ns()
        delay_s = settings.latency_s(op_class) + self._bandwidth_s(settings, now_ns, n_bytes)
        if op_class == "read":
            delay_s += settings.extra_read_latency_s(path) + self._recall_s(settings, path)
        spike = spike_at(settings, self._since_ns, now_ns)
        hit = spike is not None and op_class in settings.spike_classes
        delay_ns = self.ledger.sleep(delay_s + (settings.spike_latency_s if hit else 0.0))
        self.ledger.add(op_class, n_bytes, delay_ns)
        if hit and spike is not None:
            self.ledger.add_spike(spike.start_ns, spike.end_ns, delay_ns)

    def is_evicted(self, path: str) -> bool:
        """Whether the file's data would have to be recalled."""
        return matches(path, self.settings.evicted_globs) and path not in self._recalled

    def _hangs(self, op_class: OpClass, path: str) -> bool:
        settings = self.settings
        return op_class in settings.hang_classes and matches(path, settings.hang_globs)

    def _recall_s(self, settings: SlowFsSettings, path: str) -> float:
        if not self.is_evicted(path):
            return 0.0
        self._recalled.add(path)
        return settings.recall_latency_s

    def _bandwidth_s(self, settings: SlowFsSettings, now_ns: int, n_bytes: int) -> float:
        if not settings.bandwidth_bytes_per_s or not n_bytes:
            return 0.0
        with self._lock:
            start_ns = max(now_ns, self._line_free_ns)
            self._line_free_ns = start_ns + int(n_bytes / settings.bandwidth_bytes_per_s * NS)
            return (self._line_free_ns - now_ns) / NS

    def _fail(self, op_class: OpClass, number: int) -> None:
        self.ledger.add(op_class, errors=1)
        raise OSError(number, errno.errorcode[number])
