"""Keeps several threads together under one rate."""

from __future__ import annotations

import threading
import time


class Brake:
    """`limit_bytes_s` 0 = no limit. `stop` set: nobody waits any more."""

    def __init__(self, limit_bytes_s: int, stop: threading.Event) -> None:
        self._limit_bytes_s = limit_bytes_s
        self._stop = stop
        self._lock = threading.Lock()
        self._free_s = time.monotonic()

    @property
    def step_bytes(self) -> int:
        """How much to read at once, so that a limit is kept within a fraction of a second."""
        return max(4096, min(1 << 20, self._limit_bytes_s // 8)) if self._limit_bytes_s else 1 << 20

    def passed(self, count: int) -> None:
        """So many bytes have come; wait as long as that must take."""
        if not self._limit_bytes_s:
            return
        with self._lock:
            now_s = time.monotonic()
            self._free_s = max(self._free_s, now_s) + count / self._limit_bytes_s
            wait_s = self._free_s - now_s
        self._stop.wait(wait_s)
