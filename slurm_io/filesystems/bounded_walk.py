"""Files below a folder, found within a time and a number, whatever lies there.

Folders are opened one from the other and never through a link, so loops and swapped folders lead
nowhere and the length of a path does not matter.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEPTH_MAX = 64
_CLOCK_EVERY = 64


class Entry(NamedTuple):
    """A file or a link; `path` is relative to the folder walked. `entry` answers stat() until the
    walk goes on."""

    path: str
    entry: os.DirEntry[str]


class BoundedWalk:
    """Iterate over it once. Then `cut` says why it is not all ("" = it is all).

    Ends when ``time.monotonic()`` reaches `until_s` or after `entries_max` entries. `skip` are
    names of folders not to look into. Raises OSError when the folder itself cannot be opened.
    """

    def __init__(
        self, root: str, until_s: float, entries_max: int, skip: frozenset[str] = frozenset()
    ) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._until_s = until_s
        self._entries_max = entries_max
        self._skip = skip
        self._entries = 0
        self.cut = ""

    def __iter__(self) -> Iterator[Entry]:
        try:
            yield from self._below(self._root, "", 1)
        finally:
            os.close(self._root)

    def _below(self, descriptor: int, prefix: str, depth: int) -> Iterator[Entry]:
        try:
            listing = os.scandir(descriptor)
        except OSError as error:
            self.cut = self.cut or f"a folder cannot be listed: {error.strerror}"
            return
        folders = []
        with listing:
            for entry in listing:
                if self._is_over():
                    return
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                else:
                    yield Entry(prefix + entry.name, entry)
        for name in sorted(folders):
            if name not in self._skip:
                yield from self._inside(descriptor, prefix, name, depth)
            if self._is_over(0):
                return

    def _inside(self, descriptor: int, prefix: str, name: str, depth: int) -> Iterator[Entry]:
        if depth >= _DEPTH_MAX:
            self.cut = self.cut or f"folders are nested deeper than {_DEPTH_MAX}"
            return
        try:
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=descriptor)
        except OSError as error:
            self.cut = self.cut or f"a folder cannot be opened: {error.strerror}"
            return
        try:
            yield from self._below(inner, f"{prefix}{name}/", depth + 1)
        finally:
            os.close(inner)

    def _is_over(self, added: int = 1) -> bool:
        self._entries += added
        if self._entries > self._entries_max:
            self.cut = f"more than {self._entries_max} entries"
        elif self._entries % _CLOCK_EVERY == 0 and time.monotonic() >= self._until_s:
            self.cut = "no time left"
        return self.cut.startswith(("more than", "no time"))
