"""Runs a piece of work in a child that is killed with SIGKILL at a chosen step.

A step is a file operation that Python reports to audit hooks (open, rename, remove, …). The child
is killed just before it. For scripts of their own: a hook cannot be taken off again, and pytest's
own file operations are no steps.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

_STEPS = {
    "open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.scandir", "os.listdir",
    "os.truncate", "shutil.rmtree",
}  # fmt: skip


def ran_through(work: Callable[[], object], step: int) -> bool:
    """Whether `work` in a child ended before it came to step `step` (from 1)."""
    pid = os.fork()
    if pid == 0:
        left = step

        def count(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            if event in _STEPS:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        work()
        os._exit(0)
    return os.WIFEXITED(os.waitpid(pid, 0)[1])
