"""Space and inodes of a file system from statvfs, as a reader for a killable child."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

_LARGEST = 1 << 63


class Capacity(NamedTuple):
    """Bytes and inodes; None where the file system gives no usable number."""

    size_bytes: int | None
    used_bytes: int | None
    avail_bytes: int | None
    inodes: int | None
    inodes_avail: int | None


def read_statvfs(path: str) -> tuple[int, ...]:
    """``(frsize, blocks, bfree, bavail, files, favail)``. May hang: call it through a probe."""
    found = os.statvfs(path)
    return (
        found.f_frsize or found.f_bsize,
        found.f_blocks,
        found.f_bfree,
        found.f_bavail,
        found.f_files,
        found.f_favail,
    )


def capacity_of(statvfs: Sequence[int]) -> Capacity:
    """Numbers for people. A size of 0 means the file system does not answer the question, as many
    FUSE ones; 0 inodes that their number is not fixed (btrfs, some network file systems)."""
    frsize, blocks, bfree, bavail, files, favail = statvfs
    if blocks <= 0:
        return Capacity(None, None, None, None, None)
    return Capacity(
        _sane(blocks * frsize),
        _sane((blocks - bfree) * frsize),
        _sane(bavail * frsize),
        _sane(files) if files > 0 else None,
        _sane(favail) if files > 0 else None,
    )


def _sane(number: int) -> int | None:
    return number if 0 <= number < _LARGEST else None
