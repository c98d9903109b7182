"""Which further processes `slurm-io run` wants watched: the other tasks of its srun step.

Each registers itself by an empty file ``task-<pid>-<starttime>`` in the ring folder, which only the
user can enter (docs/development/contracts.md, 4), and becomes its command by exec: process id and
start time stay.
"""

from __future__ import annotations

import os
import re

from slurm_io.sampler.folder_changes import FolderChanges

_NAME = re.compile(r"task-([1-9][0-9]{0,9})-([0-9]{1,19})", re.ASCII)


def registered_tasks(ring_dir: str) -> list[tuple[int, int]]:
    """(pid, starttime) of each; empty when there is no such folder."""
    try:
        names = os.listdir(ring_dir)
    except OSError:
        return []
    return [(int(found[1]), int(found[2])) for found in map(_NAME.fullmatch, names) if found]


class RegisteredTasks:
    """:func:`registered_tasks` of one folder, listed again only when the folder changed."""

    def __init__(self, ring_dir: str) -> None:
        self._ring_dir = ring_dir
        self._changes = FolderChanges()
        self._tasks: list[tuple[int, int]] = []

    def now(self) -> list[tuple[int, int]]:
        """As of now."""
        try:
            facts = os.stat(self._ring_dir)
        except OSError:
            return []
        if self._changes.may_have_come(facts):
            self._tasks = registered_tasks(self._ring_dir)
        return self._tasks
