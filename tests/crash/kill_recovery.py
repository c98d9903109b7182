"""Recovers copies of a killed run, each killed -9 at a later step: ``STORE SPOOL FOLDER STRIDE``.

A step is a file operation that Python reports to audit hooks (open, rename, remove, …). Copy
``FOLDER/N`` holds ``store`` and its spool, killed just before step N; the last copy is one that ran
through. Prints the steps at which a copy was killed.
"""

from __future__ import annotations

import json
import shutil
import sys
from functools import partial
from pathlib import Path

from slurm_io.runner.place import spool_prefix
from slurm_io.runner.recover import recover
from tests.labs.kill_at_step import ran_through


def copy_of(store: Path, spool: Path, folder: Path) -> Path:
    """The same run once more, its ``job.json`` naming the copied spool."""
    shutil.copytree(store, folder / "store")
    new_spool = folder / f"{spool_prefix()}copy"
    shutil.copytree(spool, new_spool)
    told = json.loads((store / "job.json").read_text())
    told["spool"] = {node: str(new_spool) for node in told["spool"]}
    (folder / "store" / "job.json").write_text(json.dumps(told))
    return folder / "store"


def main(store: Path, spool: Path, folder: Path, stride: int) -> None:
    recover(copy_of(store, spool, folder / "warm"))  # imports are no steps of ours
    step, done = 1, []
    while not ran_through(partial(recover, copy_of(store, spool, folder / str(step))), step):
        done.append(step)
        step += stride
    print(*done)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
