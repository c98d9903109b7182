"""Mounts that checkpoints went to, so that their room is watched before it runs out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from slurm_io.collectors.base import Row
from slurm_io.filesystems.mounts import read_mounts
from slurm_io.store.schema import TABLES

_MOST_MOUNTS = 8
_NAMES = TABLES["events"].column_names()
_KIND, _PATH = _NAMES.index("kind"), _NAMES.index("path")


class SavedTo:
    """Learns mount points from rows of the events table.

    Paths come from the job and are looked at by name only: touching one could hang, or lead
    elsewhere. What is kept is a mount point of the mount table.
    """

    def __init__(self, proc_root: Path) -> None:
        self._proc_root = proc_root
        self.mounts: list[str] = []

    def note(self, events: Iterable[Row]) -> None:
        """Remember where the checkpoints among `events` lie."""
        paths = {str(row[_PATH]) for row in events if _is_save(row)}
        if not paths or len(self.mounts) >= _MOST_MOUNTS:
            return
        table = read_mounts(self._proc_root)
        for path in sorted(paths):
            found = table.of_path(path)
            if found is not None and found.mount_point not in self.mounts:
                self.mounts = [*self.mounts, found.mount_point][:_MOST_MOUNTS]


def _is_save(row: Row) -> bool:
    return str(row[_KIND]).startswith("ckpt_") and row[_PATH] is not None
