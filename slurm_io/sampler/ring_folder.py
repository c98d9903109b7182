"""The folder of rings: a user's folder read by root, so everything in it may be a trap.

Names must match, at most 1024 are read, nothing is followed, nothing can block the open, and a ring
must be a regular file of the job's user with the size its header claims. What fails is counted.
A ring is removed once its process is gone and everything in it has been read: tmpfs is memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from slurm_io.sampler.folder_changes import FolderChanges
from slurm_io.sampler.ring import Ring
from slurm_io.sampler.ring_format import (
    HEADER_BYTES,
    INT32_MAX,
    MAX_RING_BYTES,
    parse_header,
)

_NAME = re.compile(r"ring-([1-9][0-9]{0,9})-([0-9]{1,19})(?:\.([1-9][0-9]{0,19}))?", re.ASCII)
_MOST_RINGS = 1024
_MOST_ENTRIES = 8192
_MOST_REFUSED_KEPT = 4096
_TRIES = 3  # a ring is created in steps: only what stays wrong is refused
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class FoundRing:
    """A ring that has just been opened. `pid` and `starttime` are as its writer sees them, in the
    pid namespace `pid_ns` (None: the machine's own)."""

    name: str
    pid: int
    starttime: int
    ring: Ring
    inode: int = field(repr=False, default=0)
    pid_ns: int | None = None


class RingFolder:
    """Opens rings as they appear. `uid` must own them. `removes`: files of the finished ones go."""

    def __init__(self, folder: Path, uid: int, removes: bool = True) -> None:
        self._folder = folder
        self._uid = uid
        self._removes = removes
        self._fd: int | None = None
        self._open: dict[str, FoundRing] = {}
        self._tries: dict[str, int] = {}
        self._done: set[str] = set()
        self._changes = FolderChanges()
        self._has_unfinished = False
        self.refused = 0

    def scan(self) -> list[FoundRing]:
        """Rings not seen before."""
        if not self._ensure_folder() or not self._may_hold_new_ones():
            return []
        fresh = []
        self._has_unfinished = False
        for name, pid, starttime, pid_ns in self._names():
            if name in self._open or name in self._done or len(self._open) >= _MOST_RINGS:
                continue
            found = self._try(name, pid, starttime, pid_ns)
            if found is not None:
                self._open[name] = found
                fresh.append(found)
        return fresh

    def _may_hold_new_ones(self) -> bool:
        assert self._fd is not None
        changed = self._changes.may_have_come(os.fstat(self._fd))
        return changed or self._has_unfinished or len(self._open) >= _MOST_RINGS

    def remove(self, found: FoundRing) -> None:
        """Close a ring and take its file away, if it is ours and still that very file."""
        found.ring.close()
        self._open.pop(found.name, None)
        if self._fd is None:
            return
        if not self._removes:
            self._done.add(found.name)
            return
        with contextlib.suppress(OSError):
            facts = os.stat(found.name, dir_fd=self._fd, follow_symlinks=False)
            if facts.st_ino == found.inode and facts.st_uid == self._uid:
                os.unlink(found.name, dir_fd=self._fd)
                return
        self._done.add(found.name)  # what cannot be removed must not be read a second time

    def close(self) -> None:
        """Close everything; the files stay."""
        for found in self._open.values():
            found.ring.close()
        self._open.clear()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _ensure_folder(self) -> bool:
        """Open the folder, again when it was replaced; it may appear long after the sampler."""
        if self._fd is not None and os.fstat(self._fd).st_nlink == 0:
            os.close(self._fd)
            self._fd = None
        if self._fd is None:
            with contextlib.suppress(OSError):
                self._fd = os.open(self._folder, _FOLDER_FLAGS)
        return self._fd is not None

    def _names(self) -> Iterator[tuple[str, int, int, int | None]]:
        assert self._fd is not None
        try:
            with os.scandir(self._fd) as entries:
                for count, entry in enumerate(entries):
                    match = _NAME.fullmatch(entry.name)
                    if match:
                        pid_ns = int(match[3]) if match[3] else None
                        yield entry.name, int(match[1]), int(match[2]), pid_ns
                    if count >= _MOST_ENTRIES:
                        return
        except OSError:
            return

    def _try(self, name: str, pid: int, starttime: int, pid_ns: int | None) -> FoundRing | None:
        tries = self._tries.get(name, 0)
        if tries >= _TRIES or len(self._tries) >= _MOST_REFUSED_KEPT:
            return None
        may_be = pid <= INT32_MAX
        found = self._open_ring(name, pid, starttime, pid_ns) if may_be else None
        if found is not None:
            self._tries.pop(name, None)
            return found
        self._has_unfinished = True
        self._tries[name] = tries + 1
        self.refused += tries + 1 == _TRIES
        return None

    def _open_ring(
        self, name: str, pid: int, starttime: int, pid_ns: int | None
    ) -> FoundRing | None:
        try:
            fd = os.open(name, _OPEN_FLAGS, dir_fd=self._fd)
        except OSError:
            return None
        found = None
        try:
            facts = os.fstat(fd)
            if self._is_plausible(facts):
                raw = os.pread(fd, HEADER_BYTES, 0)
                header = parse_header(raw)
                if header is not None and header.size_bytes() == facts.st_size:
                    ring = Ring(fd, header, raw)
                    found = FoundRing(name, pid, starttime, ring, facts.st_ino, pid_ns)
        except OSError:
            found = None
        finally:
            if found is None:
                os.close(fd)
        return found

    def _is_plausible(self, facts: os.stat_result) -> bool:
        return (
            stat.S_ISREG(facts.st_mode)
            and facts.st_uid == self._uid
            and HEADER_BYTES < facts.st_size <= MAX_RING_BYTES
        )
