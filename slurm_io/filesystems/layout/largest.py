"""The largest files of a tree and a fair sample of its small ones, within a time limit.

Breadth first, because shards lie near the top; no links, one file system; every folder is opened
relative to its parent, so a link swapped in is refused. Memory: what is kept, and the folders that
are still to be looked at.
"""

from __future__ import annotations

import heapq
import os
import stat
import time
from collections import deque
from dataclasses import dataclass, field

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_MOST_FOLDERS = 100_000


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
    folders = deque([""])
    while folders:
        if time.monotonic() >= deadline_s:
            sample.cut = f"out of time: at least {len(folders)} folders"
            return
        folder = folders.popleft()
        try:
            below = _one_folder(root, folder, device, deadline_s, sample)
        except OSError:
            sample.unreadable += 1
            continue
        room = _MOST_FOLDERS - len(folders)
        if len(below) > room:
            sample.cut = f"more than {_MOST_FOLDERS} folders"
        folders.extend(below[: max(room, 0)])


def _one_folder(
    root: int, folder: str, device: int, deadline_s: float, sample: Sample
) -> list[str]:
    below: list[str] = []
    prefix = folder + "/" if folder else ""
    descriptor = _open_below(root, folder)
    try:
        if os.fstat(descriptor).st_dev != device:
            return []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    sample.add(entry.stat(follow_symlinks=False).st_size, prefix + entry.name)
                    if sample.files % 256 == 0 and time.monotonic() >= deadline_s:
                        sample.cut = "out of time: the rest of a folder"
                        return below
                elif entry.is_dir(follow_symlinks=False):
                    below.append(prefix + entry.name)
    finally:
        os.close(descriptor)
    return below


def _open_below(root: int, folder: str) -> int:
    descriptor = os.open(".", _FOLDER_FLAGS, dir_fd=root)
    for name in folder.split("/") if folder else ():
        try:
            following = os.open(name, _FOLDER_FLAGS, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = following
    return descriptor
