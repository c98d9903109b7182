"""Seals copies of a spool, each killed at a later step: ``kill_seal.py TEMPLATE FOLDER``.

A step is a file operation that Python reports to audit hooks (open, rename, remove, …). Copy N is
killed with SIGKILL just before step N; the last copy is one that ran through. Prints the number
of copies.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

from slurm_io.store.seal import seal_spool

_STEPS = {"open", "os.rename", "os.remove", "os.scandir", "os.truncate"}


def seal_killed_at(folder: Path, step: int) -> bool:
    """Whether sealing `folder` in a child got past `step` steps."""
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
        seal_spool(folder)
        os._exit(0)
    return os.WIFEXITED(os.waitpid(pid, 0)[1])


def main(template: Path, folder: Path) -> None:
    step = 1
    while True:
        copy = folder / f"{step:04d}"
        shutil.copytree(template, copy)
        if seal_killed_at(copy, step):
            break
        step += 1
    print(step)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
