"""How far a run of rsync is, and whether it still says anything."""

from __future__ import annotations

import threading
import time

from slurm_io.staging.stage.engines.base import Moved
from slurm_io.staging.stage.rsync_text import Output


class Progress:
    """Tells the driver what has arrived; rsync counts what was there before as well."""

    def __init__(self, moved: Moved, had_bytes: int) -> None:
        self.output = Output()
        self._moved = moved
        self._had_bytes = had_bytes
        self._told_bytes = 0
        self.heard_s = time.monotonic()

    def take(self, piece: bytes) -> None:
        """A piece of rsync's output."""
        self.heard_s = time.monotonic()
        self.output.take(piece)
        self._tell(self.output.total_bytes - self._had_bytes)

    def finish(self, moved_bytes: int) -> int:
        """What came in all."""
        self._tell(moved_bytes)
        return max(0, moved_bytes)

    def _tell(self, total_bytes: int) -> None:
        if total_bytes > self._told_bytes:
            self._moved(total_bytes - self._told_bytes)
            self._told_bytes = total_bytes


class Watch:
    """Ends a run that was told to stop, or that says nothing any more. rsync's own time limit does
    not: while it can send a sign of life it never looks whether one comes back."""

    def __init__(self, progress: Progress, stop: threading.Event, silence_s: float) -> None:
        self._progress = progress
        self._stop = stop
        self._silence_s = silence_s
        self.is_hung = False
        self.end = threading.Event()

    def look(self) -> None:
        """Have a look."""
        self.is_hung = time.monotonic() - self._progress.heard_s > self._silence_s
        if self.is_hung or self._stop.is_set():
            self.end.set()
