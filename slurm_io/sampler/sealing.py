"""Seals rotated streams while the job runs, so that a month's spool stays small.

Sealing needs pyarrow, which the sampler never imports: a child does it at the lowest priority and
ends. It leaves the streams being written alone (they are locked). One at a time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_LONGEST_S = 600.0


class SealingChild:
    """Call :meth:`tend` at every tick. `runs` and `failures` are for self.json."""

    def __init__(self, spool: Path) -> None:
        self._command = [sys.executable, "-m", "slurm_io.store.seal", str(spool)]
        self._seen = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0
        self.runs = 0
        self.failures = 0

    def tend(self, rotations: int, now_s: float) -> None:
        """Start a child when a stream was rotated since the last one; look after a running one."""
        if self._child is not None:
            self._look_after(now_s)
        elif rotations > self._seen:
            self._seen = rotations
            self._start(now_s)

    def stop(self) -> None:
        """End a running child: sealing can be cut off anywhere and is finished later."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    def _start(self, now_s: float) -> None:
        self.runs += 1
        self._started_s = now_s
        nothing = subprocess.DEVNULL
        try:
            self._child = subprocess.Popen(
                self._command, stdin=nothing, stdout=nothing, stderr=nothing
            )
            os.setpriority(os.PRIO_PROCESS, self._child.pid, 19)
        except OSError:
            self.failures += 1

    def _look_after(self, now_s: float) -> None:
        assert self._child is not None
        if self._child.poll() is None and now_s - self._started_s < _LONGEST_S:
            return
        self.failures += self._child.returncode != 0
        self.stop()
