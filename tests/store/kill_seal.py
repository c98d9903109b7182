"""Seals copies of a spool, each killed at a later step: ``TEMPLATE FOLDER``.

A step is a file operation that Python reports to audit hooks (open, rename, remove, …). Copy N is
killed with SIGKILL just before step N; the last copy is one that ran through. Prints the number
of copies.
"""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path

from slurm_io.store.seal import seal_spool
from tests.labs.kill_at_step import ran_through


def main(template: Path, folder: Path) -> None:
    step = 1
    while True:
        copy = folder / f"{step:04d}"
        shutil.copytree(template, copy)
        if ran_through(partial(seal_spool, copy), step):
            break
        step += 1
    print(step)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
