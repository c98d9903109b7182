"""Whether what is to be copied fits: bytes and inodes, with the site's headroom."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Space:
    """`free_bytes` are what an ordinary user gets; `short_*` > 0 = so much is missing."""

    free_bytes: int
    short_bytes: int
    short_inodes: int


def space_at(path: str, free_share: float, needed_bytes: int, needed_inodes: int) -> Space:
    """Of the file system at `path`, or at the nearest folder above it that exists.

    Raises OSError.
    """
    while not os.path.isdir(path) and path not in ("", "/"):
        path = os.path.dirname(path.rstrip("/"))
    facts = os.statvfs(path or "/")
    free = facts.f_bavail * facts.f_frsize
    room = free - int(facts.f_blocks * facts.f_frsize * free_share)
    short_inodes = 0
    if facts.f_files:  # btrfs and others make inodes as they go, and say 0
        inodes = facts.f_favail - int(facts.f_files * free_share)
        short_inodes = max(0, needed_inodes - max(0, inodes))
    # A stage that writes nothing must not fail for want of headroom.
    short = max(0, needed_bytes - max(0, room)) if needed_bytes > 0 else 0
    return Space(free, short, short_inodes if needed_inodes > 0 else 0)


def needed_bytes(
    new_bytes: int, replaced: Collection[int], partly_there: int, given_back: int, streams: int
) -> int:
    """Most that the copy takes at one time.

    Bad versions (`replaced`, their bytes) stay until the new ones are proven: `streams` of them at
    a time lie beside one another.
    """
    beside = sum(sorted(replaced, reverse=True)[:streams])
    return new_bytes - sum(replaced) + beside - partly_there - given_back
