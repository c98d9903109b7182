"""A slow disk: a control group whose reads of one block device are limited in number per second.

    with BlockLab(folder) as lab, ReadThrottle(lab.device, 25) as throttle:
        run(throttle.wrapped(command))

Readers sleep in the kernel until the block layer lets their reads through; what the page cache
holds costs nothing. Needs root and the blkio controller of cgroup v1.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path("/sys/fs/cgroup/blkio")
_LIMIT = "blkio.throttle.read_iops_device"
_TRIES = 50


def throttle_missing() -> str | None:
    """Why reads cannot be limited here; None when they can."""
    if os.geteuid() != 0:
        return "making control groups needs root"
    if not (ROOT / _LIMIT).exists():
        return f"no blkio controller of cgroup v1 with throttling at {ROOT}"
    return None


class ReadThrottle:
    """One group, gone with the ``with`` block, when its processes are."""

    def __init__(self, device: str, reads_s: int) -> None:
        self._device = device
        self._reads_s = reads_s
        self._group = ROOT / f"slow-disk-{os.getpid()}-{Path(device).name}"

    def __enter__(self) -> Self:
        self._group.mkdir()
        number = Path(self._device).stat().st_rdev
        limit = f"{os.major(number)}:{os.minor(number)} {self._reads_s}"
        (self._group / _LIMIT).write_text(limit)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for _ in range(_TRIES):
            try:
                self._group.rmdir()
            except OSError:  # a process of it is still ending
                time.sleep(0.1)
            else:
                return
        self._group.rmdir()

    def wrapped(self, command: list[str]) -> list[str]:
        """`command`, started inside the group."""
        script = f'echo $$ > {self._group}/cgroup.procs && exec "$@"'
        return ["/bin/sh", "-c", script, "sh", *command]
