"""How a folder grows that a program fills, for programs that do not say how far they are."""

from __future__ import annotations

import contextlib
import os
import threading
import time

from slurm_io.staging.stage.engines.base import Moved

_EVERY_S = 1.0
_BLOCK_BYTES = 512


class Growth:
    """Of one flat folder. `hung` is set when it has not grown for `silence_s`."""

    def __init__(self, folder: str, moved: Moved, silence_s: float) -> None:
        self._folder = folder
        self._moved = moved
        self._silence_s = silence_s
        self._told_bytes = 0
        self._looked_s = self._grew_s = time.monotonic()
        self.hung = threading.Event()

    def look(self) -> None:
        """Have a look, once a second however often it is called."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _EVERY_S:
            return
        self._looked_s = now_s
        if self._tell(self._allocated_bytes()):
            self._grew_s = now_s
        elif now_s - self._grew_s > self._silence_s:
            self.hung.set()

    def finish(self, total_bytes: int) -> None:
        """What came in all."""
        self._tell(total_bytes)

    def _tell(self, total_bytes: int) -> bool:
        more = total_bytes - self._told_bytes
        if more > 0:
            self._moved(more)
            self._told_bytes = total_bytes
        return more > 0

    def _allocated_bytes(self) -> int:
        """By blocks: programs that write pieces side by side make the file long at once."""
        total = 0
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    facts = entry.stat(follow_symlinks=False)
                    total += min(facts.st_blocks * _BLOCK_BYTES, facts.st_size)
        return total
