"""The largest files of a tree and a fair sample of its small ones, within a time limit.

Breadth first, because shards lie near the top; no links, one file system; every folder is opened
relative to its parent, so a link swapped in is refused. Memory: what is kept, and a bounded number
of folders that are still to be looked at.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import stat
import time
from dataclasses import dataclass, field

from slurm_io.filesystems.layout.waiting import Waiting

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_MOST_WAITING_BYTES = 16 << 20
_CLOCK_EVERY = 256


@dataclass
class Sample:
    """What a walk found. Paths are relative to the root, "" for a root that is a file itself.

    `cut` says why the walk ended early, None when it saw the whole tree.
    """

    keep_large: int
    keep_small: int
    small_below_bytes: int
    files: int = 0
    small_files: int = 0
    unreadable: int = 0
    cut: str | None = None
    large: list[tuple[int, str]] = field(default_factory=list)
    small: list[tuple[int, str]] = field(default_factory=list)
    _state: int = 1

    def add(self, size_bytes: int, path: str) -> None:
        """Count a file and keep it if it is among the largest, or drawn among the small."""
        self.files += 1
        if size_bytes < self.small_below_bytes:
            self.small_files += 1
            self._draw(size_bytes, path)
        elif len(self.large) < self.keep_large:
            heapq.heappush(self.large, (size_bytes, path))
        else:
            heapq.heappushpop(self.large, (size_bytes, path))

    def _draw(self, size_bytes: int, path: str) -> None:
        """Every small file has the same chance to be kept."""
        if len(self.small) < self.keep_small:
            self.small.append((size_bytes, path))
        elif (place := self._number_below(self.small_files)) < self.keep_small:
            self.small[place] = (size_bytes, path)

    def _number_below(self, limit: int) -> int:
        """Knuth's MMIX generator: importing random costs every prolog 3 ms."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        return (self._state >> 16) % limit


def sample_tree(root: str, deadline_s: float, sample: Sample) -> Sample:
    """Fill `sample` from the tree below `root` until `deadline_s` (CLOCK_MONOTONIC).

    Raises OSError when the root cannot be opened.
    """
    found = os.stat(root)
    if stat.S_ISREG(found.st_mode):
        sample.add(found.st_size, "")
        return sample
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _walk(descriptor, os.fstat(descriptor).st_dev, deadline_s, sample)
    finally:
        os.close(descriptor)
    return sample


def _walk(root: int, device: int, deadline_s: float, sample: Sample) -> None:
    waiting = Waiting([b""], _MOST_WAITING_BYTES)
    while waiting and sample.cut is None:
        if time.monotonic() >= deadline_s:
            sample.cut = f"out of time: at least {len(waiting)} folders"
            return
        folder = os.fsdecode(waiting.first())
        try:
            _one_folder(root, folder, device, deadline_s, sample, waiting)
        except OSError:
            sample.unreadable += 1
    if waiting.left_out and sample.cut is None:
        sample.cut = f"{waiting.left_out} folders too many to keep in memory"


def _one_folder(
    root: int, folder: str, device: int, deadline_s: float, sample: Sample, waiting: Waiting
) -> None:
    prefix = folder + "/" if folder else ""
    descriptor = _open_below(root, folder)
    try:
        if os.fstat(descriptor).st_dev != device:
            return
        with os.scandir(descriptor) as entries:
            for number, entry in enumerate(entries, 1):
                if entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):  # removed while we walk
                        sample.add(entry.stat(follow_symlinks=False).st_size, prefix + entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    waiting.add(os.fsencode(prefix + entry.name))
                if number % _CLOCK_EVERY == 0 and time.monotonic() >= deadline_s:
                    sample.cut = "out of time: the rest of a folder"
                    return
    finally:
        os.close(descriptor)


def _open_below(root: int, folder: str) -> int:
    descriptor = os.open(".", _FOLDER_FLAGS, dir_fd=root)
    for name in folder.split("/") if folder else ():
        try:
            following = os.open(name, _FOLDER_FLAGS, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = following
    return descriptor
