"""Folders of a dataset, opened one component at a time without following a link.

What is below the root belongs to whoever staged it, perhaps to a user: a link, a FIFO or a device
in place of a folder or file is reported, never followed or waited for.
"""

from __future__ import annotations

import os
import stat
from types import TracebackType
from typing import Self

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NotAFile(OSError):
    """A link, folder, FIFO, socket or device stands where a file should."""


class Tree:
    """The folders below one root. Ask in sorted order: the way to the last one stays open."""

    def __init__(self, path: str) -> None:
        """Links in `path` itself are followed: it is the admin's or the caller's word."""
        self.root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._way: list[tuple[bytes, int]] = []
        self.swapped: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave(0)
        os.close(self.root)

    def folder(self, path: bytes) -> int:
        """Descriptor of a folder (b"" is the root), valid until the next call. Raises OSError."""
        parts = path.split(b"/") if path else []
        depth = 0
        while depth < min(len(parts), len(self._way)) and self._way[depth][0] == parts[depth]:
            depth += 1
        self._leave(depth)
        for part in parts[depth:]:
            self._way.append((part, os.open(part, _FOLDER, dir_fd=self._here())))
        return self._here()

    @property
    def inode(self) -> int:
        """Of the root."""
        return os.fstat(self.root).st_ino

    def finish(self) -> list[bytes]:
        """Leave all folders; the paths of those that were swapped for something else meanwhile."""
        self._leave(0)
        return self.swapped

    def _here(self) -> int:
        return self._way[-1][1] if self._way else self.root

    def _leave(self, depth: int) -> None:
        while len(self._way) > depth:
            name, descriptor = self._way.pop()
            if not _still_there(self._here(), name, descriptor):
                self.swapped.append(b"/".join([*(name for name, _ in self._way), name]))
            os.close(descriptor)


def open_file(folder: int, name: bytes) -> tuple[int, os.stat_result]:
    """A regular file inside an open folder, and its stat. Raises NotAFile, OSError."""
    found = os.lstat(name, dir_fd=folder)
    if not stat.S_ISREG(found.st_mode):  # before the open: opening a device can do things
        raise NotAFile(kind_of_entry(found.st_mode))
    descriptor = os.open(name, _FILE, dir_fd=folder)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise NotAFile(kind_of_entry(found.st_mode))
    return descriptor, found


def kind_of_entry(mode: int) -> str:
    """What stands there, in words."""
    kinds = (
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISREG, "a file"),
    )
    return next((words for test, words in kinds if test(mode)), "a device")


def _still_there(parent: int, name: bytes, descriptor: int) -> bool:
    try:
        now = os.lstat(name, dir_fd=parent)
    except OSError:
        return False
    opened = os.fstat(descriptor)
    return (now.st_dev, now.st_ino) == (opened.st_dev, opened.st_ino)
