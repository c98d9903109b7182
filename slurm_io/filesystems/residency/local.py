"""Disks and memory of the node: what has a size here is here, holes excepted.

A large file of which less than half was ever written is accused (an unfinished copy, a
preallocated download), unless the file system compresses. XFS with a data migration interface
(DMF) cannot be told from here.
"""

from __future__ import annotations

import os
import time

from slurm_io.filesystems.residency.base import SYSTEMS, Surroundings, System, Verdict
from slurm_io.filesystems.residency.generic import BIG_BYTES, HOLES_BELOW, SETTLED_S, blocks_share

_NEVER_COMPRESSING = frozenset(("ext2", "ext3", "ext4", "xfs", "tmpfs", "ramfs"))
_MIGRATING = frozenset(("dmapi", "dmi", "xdsm"))


def look(descriptor: int, found: os.stat_result, surroundings: Surroundings) -> Verdict:
    """Resident by the kind of file system."""
    if not _MIGRATING.isdisjoint(surroundings.options):
        return Verdict("unknown", reason="the file system is managed by a data migration facility")
    if _has_holes(found, surroundings):
        share = blocks_share(found.st_size, found.st_blocks)
        return Verdict("suspect", source="st_blocks", reason=f"{share:.0%} of it was ever written")
    return Verdict("resident", 0, "file system kind")


def is_without_compression(fstype: str) -> bool:
    """Whether a file's blocks say how much of it was written."""
    return fstype in _NEVER_COMPRESSING


def _has_holes(found: os.stat_result, surroundings: Surroundings) -> bool:
    return (
        found.st_size > BIG_BYTES
        and is_without_compression(surroundings.fstype)
        and blocks_share(found.st_size, found.st_blocks) < HOLES_BELOW
        # ext4 and xfs may not have given blocks yet to what was written a moment ago.
        and time.time() - max(found.st_mtime, found.st_ctime) > SETTLED_S
    )


local = SYSTEMS.register("local")(System(kinds=("local", "tmpfs"), look=look, may_accuse=False))
