"""Which further processes `slurm-io run` wants watched: the other tasks of its srun step.

Each registers itself by an empty file ``task-<pid>-<starttime>`` in the ring folder, which only the
user can enter (docs/development/contracts.md, 4), and becomes its command by exec: process id and
start time stay.
"""

from __future__ import annotations

import os
import re

_NAME = re.compile(r"task-([1-9][0-9]{0,9})-([0-9]{1,19})", re.ASCII)


def registered_tasks(ring_dir: str) -> list[tuple[int, int]]:
    """(pid, starttime) of each; empty when there is no such folder."""
    try:
        names = os.listdir(ring_dir)
    except OSError:
        return []
    return [(int(found[1]), int(found[2])) for found in map(_NAME.fullmatch, names) if found]
