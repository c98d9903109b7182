"""Folders that a walk has seen and not looked at yet, in bounded memory.

A million folders below a path of thousands of characters would take gigabytes: what does not fit
is counted and left out, which the walk has to tell.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

MOST_BYTES = 256 << 20
_EACH_BYTES = 41  # a bytes object and its place in the queue, without its characters


class Waiting:
    """Folders as paths relative to the root; `left_out` of them were too many to keep."""

    def __init__(self, folders: Iterable[bytes] = (), most_bytes: int = MOST_BYTES) -> None:
        self._folders: deque[bytes] = deque()
        self._room_bytes = most_bytes
        self.left_out = 0
        for folder in folders:
            self.add(folder)

    def __len__(self) -> int:
        return len(self._folders)

    def add(self, folder: bytes) -> None:
        """Keep one for later, or count it as left out."""
        needed = len(folder) + _EACH_BYTES
        if needed > self._room_bytes:
            self.left_out += 1
        else:
            self._room_bytes -= needed
            self._folders.append(folder)

    def last(self) -> bytes:
        """Take the one added last: what lies in a folder before that folder's neighbours."""
        return self._taken(self._folders.pop())

    def first(self) -> bytes:
        """Take the one added first: all of one level before the next."""
        return self._taken(self._folders.popleft())

    def take(self, count: int) -> list[bytes]:
        """Take up to `count` of them, the last first."""
        return [self.last() for _ in range(min(count, len(self._folders)))]

    def _taken(self, folder: bytes) -> bytes:
        self._room_bytes += len(folder) + _EACH_BYTES
        return folder
