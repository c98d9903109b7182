"""Compacts copies of a store, each killed at a later step: ``TEMPLATE FOLDER``.

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

from slurm_io.store.compact import compact

_STEPS = {
    "open", "os.rename", "os.remove", "os.rmdir", "os.scandir", "os.listdir", "os.mkdir",
    "os.truncate", "shutil.rmtree",
}  # fmt: skip


def ran_through(store: Path, step: int) -> bool:
    """Whether compacting `store` in a child got past `step` steps."""
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
        compact(store)
        os._exit(0)
    return os.WIFEXITED(os.waitpid(pid, 0)[1])


def main(template: Path, folder: Path) -> None:
    warm = folder / "warm"
    shutil.copytree(template, warm)
    compact(warm)  # imports are no steps of ours
    shutil.rmtree(warm)
    step = 1
    while True:
        copy = folder / f"{step:04d}"
        shutil.copytree(template, copy)
        if ran_through(copy, step):
            break
        step += 1
    print(step)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
