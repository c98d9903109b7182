"""Opening files below one folder by relative path, with no symbolic link followed on the way.

Whoever owns the files can swap any part of a path for a link between two system calls; opening
component by component relative to open descriptors makes such a swap fail instead of lead away.
Paths far beyond PATH_MAX open the same way.

Standard library only: the prolog loads it.
"""

from __future__ import annotations

import os
import stat
from types import TracebackType
from typing import Self

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A named pipe put in a file's place must not stop us (O_NONBLOCK), nor a terminal become ours.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_OPEN_LEVELS = 64
_CLOSED = -1


class NotAFile(OSError):
    """A link, folder, FIFO, socket or device stands where a file should."""


class Folder:
    """An open folder, and the way from it down to the folder below it that was asked for last.

    Ask in the order of paths: then each folder is opened once. At most 65 descriptors are open.
    Not for several threads at once.
    """

    def __init__(self, root_fd: int, watch: bool = False) -> None:
        """Takes over `root_fd`. `watch`: look whether a folder was swapped when it is left."""
        self.fd = root_fd
        self._watch = watch
        self._swapped: list[bytes] = []
        self._way: list[tuple[bytes, int]] = []
        self._last: bytes | None = b""

    @classmethod
    def at(cls, path: str | bytes, watch: bool = False) -> Folder:
        """The folder at a path; links in this path itself are followed. Raises OSError."""
        return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), watch)

    def open_file(self, raw_path: bytes) -> int:
        """Descriptor of a file; the caller closes it. Raises OSError (ELOOP, ENOTDIR: a link)."""
        folder, _, name = raw_path.rpartition(b"/")
        return os.open(name, _FILE, dir_fd=self.folder_fd(folder))

    def stat(self, raw_path: bytes) -> os.stat_result:
        """lstat of a path. Raises OSError."""
        folder, _, name = raw_path.rpartition(b"/")
        return os.lstat(name, dir_fd=self.folder_fd(folder))

    def folder_fd(self, raw_path: bytes) -> int:
        """Descriptor of a folder below (``b""``: the root itself); ours, valid until the next call.

        Raises OSError.
        """
        if raw_path == self._last:
            return self._here()
        self._last = None  # until we are there
        names = raw_path.split(b"/") if raw_path else []
        self._leave(self._shared_levels(names))
        for name in names[len(self._way) :]:
            self._enter(name)
        self._last = raw_path
        return self._here()

    def finish(self) -> list[bytes]:
        """Leave all folders; those that were swapped for something else while we were in them.

        Tells only what `watch` looked for, and nothing below 64 levels.
        """
        self._leave(0)
        self._last = b""
        return self._swapped

    def close(self) -> None:
        """Close every descriptor."""
        self.finish()
        if self.fd != _CLOSED:
            os.close(self.fd)
            self.fd = _CLOSED

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _here(self) -> int:
        return self._way[-1][1] if self._way else self.fd

    def _shared_levels(self, names: list[bytes]) -> int:
        """How far down the way to `names` is the present one, up to a level that is open."""
        depth = 0
        for (name, _), wanted in zip(self._way, names, strict=False):
            if name != wanted:
                break
            depth += 1
        while depth and self._way[depth - 1][1] == _CLOSED:
            depth -= 1
        return depth

    def _enter(self, name: bytes) -> None:
        below = os.open(name, _FOLDER, dir_fd=self._here())
        if len(self._way) > _OPEN_LEVELS:  # so deep only the last one stays open
            above, fd = self._way[-1]
            os.close(fd)
            self._way[-1] = above, _CLOSED
        self._way.append((name, below))

    def _leave(self, depth: int) -> None:
        while len(self._way) > depth:
            name, fd = self._way.pop()
            if fd == _CLOSED:
                continue
            above = self._here()
            if self._watch and above != _CLOSED and not _still_there(above, name, fd):
                self._swapped.append(b"/".join([*(each for each, _ in self._way), name]))
            os.close(fd)


def open_regular(folder_fd: int, name: bytes, flags: int = 0) -> tuple[int, os.stat_result]:
    """A regular file inside an open folder, and its stat. `flags` are added to those for reading.

    Raises NotAFile, OSError.
    """
    found = os.lstat(name, dir_fd=folder_fd)
    if not stat.S_ISREG(found.st_mode):  # before the open: opening a device can do things
        raise NotAFile(kind_of_entry(found.st_mode))
    fd = os.open(name, _FILE | flags, dir_fd=folder_fd)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise NotAFile(kind_of_entry(found.st_mode))
    except OSError:
        os.close(fd)
        raise
    return fd, found


def read_at(fd: int, offset: int, count: int) -> bytes:
    """Up to `count` bytes. Raises OSError."""
    parts = []
    while count > 0:
        part = os.pread(fd, min(count, 1 << 20), offset)
        if not part:
            break
        parts.append(part)
        count, offset = count - len(part), offset + len(part)
    return b"".join(parts)


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


def _still_there(above_fd: int, name: bytes, fd: int) -> bool:
    try:
        now = os.lstat(name, dir_fd=above_fd)
    except OSError:
        return False
    opened = os.fstat(fd)
    return (now.st_dev, now.st_ino) == (opened.st_dev, opened.st_ino)
