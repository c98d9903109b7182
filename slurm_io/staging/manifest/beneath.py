"""Opening files below one folder by relative path, with no symbolic link followed on the way.

Whoever owns the files can swap any part of a path for a link between two system calls; opening
component by component relative to open descriptors makes such a swap fail instead of lead away.
Paths far beyond PATH_MAX open the same way.

Standard library only: the prolog loads it.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from types import TracebackType
from typing import Self

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A named pipe put in a file's place must not stop us (O_NONBLOCK), nor a terminal become ours.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_KEPT = 64


class Folder:
    """An open folder, and the folders below it that were used last (64 descriptors at most)."""

    def __init__(self, root_fd: int) -> None:
        """Takes over `root_fd`."""
        self.fd = root_fd
        self._kept: OrderedDict[bytes, int] = OrderedDict()

    @classmethod
    def at(cls, path: str | bytes) -> Folder:
        """The folder at a path; links in this path itself are followed. Raises OSError."""
        return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def open_file(self, raw_path: bytes) -> int:
        """Descriptor of a file; the caller closes it. Raises OSError (ELOOP, ENOTDIR: a link)."""
        folder, _, name = raw_path.rpartition(b"/")
        return os.open(name, _FILE, dir_fd=self.folder_fd(folder))

    def stat(self, raw_path: bytes) -> os.stat_result:
        """lstat of a path. Raises OSError."""
        folder, _, name = raw_path.rpartition(b"/")
        return os.stat(name, dir_fd=self.folder_fd(folder), follow_symlinks=False)

    def folder_fd(self, raw_path: bytes) -> int:
        """Descriptor of a folder below (``b""``: the root itself); ours, valid until the next call.

        Raises OSError.
        """
        if not raw_path:
            return self.fd
        if (kept := self._kept.get(raw_path)) is not None:
            self._kept.move_to_end(raw_path)
            return kept
        known, rest = self._nearest(raw_path)
        fd = self._kept[known] if known else self.fd
        for name in rest:
            fd = os.open(name, _FOLDER, dir_fd=fd)
            known = known + b"/" + name if known else name
            self._keep(known, fd)
        return fd

    def close(self) -> None:
        """Close every descriptor."""
        for fd in self._kept.values():
            os.close(fd)
        self._kept.clear()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _nearest(self, raw_path: bytes) -> tuple[bytes, list[bytes]]:
        """The longest kept folder above a path (``b""``: the root), and the names below it."""
        names: list[bytes] = []
        above = raw_path
        while above and above not in self._kept:
            above, _, name = above.rpartition(b"/")
            names.append(name)
        return above, names[::-1]

    def _keep(self, raw_path: bytes, fd: int) -> None:
        self._kept[raw_path] = fd
        if len(self._kept) > _KEPT:
            _, oldest = self._kept.popitem(last=False)
            os.close(oldest)
