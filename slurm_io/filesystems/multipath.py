"""Native NVMe multipath: which path devices belong to a head, and which of them are counted.

The head (``nvme3n1``) is what is mounted; its I/O goes over hidden path devices (``nvme3c33n1``:
the number of the controller has nothing to do with the head's) that have no /dev node and the
number 0:0. Older kernels count I/O on the paths only and leave the head at zero, newer ones on
both: never add head and paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from slurm_io.filesystems.block_devices import head_of
from slurm_io.filesystems.diskstats import DiskCounters

CountedOn = Literal["head", "paths"]


def paths_by_head(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Head -> its paths among `names`, which are those of /proc/diskstats."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        head = head_of(name)
        if head is not None:
            found.setdefault(head, []).append(name)
    return {head: tuple(paths) for head, paths in found.items()}


def counted_on(head: DiskCounters | None, paths: Iterable[DiskCounters]) -> CountedOn | None:
    """Where this kernel counts, from the counters since boot; None while nothing was done."""
    if head is not None and _has_moved(head):
        return "head"
    return "paths" if any(map(_has_moved, paths)) else None


def silent_heads(counters: Mapping[str, DiskCounters]) -> dict[str, tuple[str, ...]]:
    """Heads that do not count themselves -> their paths, which do."""
    return {
        head: paths
        for head, paths in paths_by_head(counters).items()
        if counted_on(counters.get(head), [counters[path] for path in paths]) == "paths"
    }


def _has_moved(counters: DiskCounters) -> bool:
    return counters.read_ios + counters.write_ios > 0
