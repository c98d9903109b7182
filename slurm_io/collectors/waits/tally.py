"""Sums the passes of about a second into rows of the waits table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from slurm_io.collectors.base import Row, Tick
from slurm_io.collectors.waits.reading import Reading
from slurm_io.collectors.waits.targets import Target
from slurm_io.store.schema import WAIT_CLASSES

_STORAGE = WAIT_CLASSES.index("storage")
COUNTED = frozenset(WAIT_CLASSES) - {"storage"}
"""Classes that stand in the row without a mount."""
_MOST_NAMES = 64
_MOST_MOUNTS = 32

Key = tuple[int | None, int | None, str, str, int | None]
"""(pid of the rank, rank number, role, phase, loader). The pid keeps two ranks apart that claim
the same number, or none."""


@dataclass
class _OfMount:
    """Storage samples of one mount."""

    samples: int = 0
    faults: int = 0
    paths: dict[str, int] = field(default_factory=dict)
    wchans: dict[str, int] = field(default_factory=dict)
    fstype: str | None = None

    def add(self, reading: Reading, target: Target) -> None:
        self.samples += 1
        self.faults += reading.is_fault
        self.fstype = target.fstype or self.fstype
        _count(self.paths, target.path)
        _count(self.wchans, reading.wchan)


class Look(NamedTuple):
    """What one look at some processes found: a class for each of those that do not wait for
    storage, reading and target of each that does."""

    classes: Sequence[str]
    storage: Sequence[tuple[Reading, Target]]


@dataclass
class Group:
    """All samples of one key."""

    passes: int = 0
    processes: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAIT_CLASSES, 0))
    mounts: dict[str | None, _OfMount] = field(default_factory=lambda: {None: _OfMount()})

    def add(self, look: Look) -> None:
        """One pass."""
        counts = self.counts
        for wait_class in look.classes:
            counts[wait_class] += 1
        for reading, target in look.storage:
            self._add_storage(reading, target)
        self.passes += 1
        self.processes = len(look.classes) + len(look.storage)

    def _add_storage(self, reading: Reading, target: Target) -> None:
        has_room = target.mount in self.mounts or len(self.mounts) < _MOST_MOUNTS
        mount = target.mount if has_room else None
        self.mounts.setdefault(mount, _OfMount()).add(reading, target)


class Tally:
    """Collects; :meth:`rows` empties it."""

    def __init__(self) -> None:
        self._groups: dict[Key, Group] = {}

    def group(self, key: Key) -> Group:
        """Where the samples of this rank, role and phase are counted."""
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group()
        return group

    def rows(self, tick: Tick, interval_ns: int) -> list[Row]:
        """Rows of everything since the last call."""
        groups, self._groups = self._groups, {}
        head = (tick.ts_ns, tick.mono_ns, interval_ns)
        return [
            (*head, *key[1:], *_cells(group, mount, of_mount))
            for key, group in groups.items()
            for mount, of_mount in group.mounts.items()
        ]


def _cells(group: Group, mount: str | None, of_mount: _OfMount) -> Row:
    others = group.counts if mount is None else {}
    counts = [others.get(name, 0) for name in WAIT_CLASSES]
    counts[_STORAGE] = of_mount.samples
    return (
        mount, of_mount.fstype, _most(of_mount.paths), _most(of_mount.wchans), group.passes,
        group.processes, *counts, of_mount.faults,
    )  # fmt: skip


def _count(counts: dict[str, int], name: str | None) -> None:
    if name and (name in counts or len(counts) < _MOST_NAMES):
        counts[name] = counts.get(name, 0) + 1


def _most(counts: dict[str, int]) -> str | None:
    return max(counts, key=lambda name: counts[name]) if counts else None
