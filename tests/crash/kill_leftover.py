"""Reads the rings of copies of a dead sampler's spool, each reader killed -9 at a later moment.

``SPOOL RINGS FOLDER HOW``. HOW is ``steps``: just before the n-th file operation that Python
reports to audit hooks; or ``writes``: in the middle of the n-th write to a stream. Copy
``FOLDER/N`` holds ``spool`` and ``rings``. Prints the moments at which a copy's reader was killed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

from slurm_io.sampler.leftover import take_over
from tests.labs.kill_at_step import ran_through


def copy_of(spool: Path, rings: Path, folder: Path) -> Path:
    """The same spool once more, its ``sampler.json`` naming the copied rings."""
    shutil.copytree(spool, folder / "spool")
    shutil.copytree(rings, folder / "rings")
    spec = json.loads((spool / "sampler.json").read_text())
    spec["ring_dir"] = str(folder / "rings")
    (folder / "spool" / "sampler.json").write_text(json.dumps(spec))
    return folder / "spool"


def wrote_through(work: partial[None], number: int) -> bool:
    """Whether `work` in a child ended before its write number `number`, which is torn in two."""
    pid = os.fork()
    if pid == 0:
        whole, left = os.pwrite, number

        def torn(fd: int, data: bytes, offset: int) -> int:
            nonlocal left
            left -= 1
            if left == 0:
                whole(fd, data[: len(data) // 2], offset)
                os.kill(os.getpid(), signal.SIGKILL)
            return whole(fd, data, offset)

        os.pwrite = torn
        work()
        os._exit(0)
    return os.WIFEXITED(os.waitpid(pid, 0)[1])


def main(spool: Path, rings: Path, folder: Path, how: str) -> None:
    take_over(copy_of(spool, rings, folder / "warm"))  # imports are no steps of ours
    ends_before = wrote_through if how == "writes" else ran_through
    number = 1
    while not ends_before(partial(take_over, copy_of(spool, rings, folder / str(number))), number):
        print(number)
        number += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
