"""Reads of file data that come from the medium where possible and leave the page cache alone.

O_DIRECT where the file system takes it. Elsewhere pages that were not in the cache before are
given back afterwards; pages that were belong to a neighbour, stay, and are counted: a hash of them
says nothing of the medium.
"""

from __future__ import annotations

import fcntl
import mmap
import os

ALIGN_BYTES = 4096


class Reader:
    """One aligned buffer of `block_bytes` and how the present file wants to be read."""

    def __init__(self, block_bytes: int) -> None:
        self._map = mmap.mmap(-1, block_bytes + ALIGN_BYTES)
        self._buffer = memoryview(self._map)
        self.block_bytes = block_bytes
        self.bytes_read = 0
        self.bytes_from_cache = 0

    def close(self) -> None:
        """Give the buffer back."""
        self._buffer.release()
        self._map.close()

    def read(self, descriptor: int, start: int, length: int) -> memoryview:
        """At most `block_bytes` from `start`, less at the file's end; valid until the next call.

        Raises OSError.
        """
        skip = start % ALIGN_BYTES
        wanted = skip + min(length, self.block_bytes)
        room = -(-wanted // ALIGN_BYTES) * ALIGN_BYTES
        got = self._fill(descriptor, start - skip, min(room, len(self._buffer)), wanted)
        found = self._buffer[min(skip, got) : min(got, wanted)]
        self.bytes_read += len(found)
        return found

    def _fill(self, descriptor: int, start: int, room: int, wanted: int) -> int:
        if is_direct(descriptor):
            try:
                return self._loop(descriptor, start, room, wanted)
            except OSError as error:
                if error.errno != 22:  # EINVAL: this file system wants another alignment
                    raise
                set_direct(descriptor, False)
        cached = self._cached(descriptor, start, room)
        got = self._loop(descriptor, start, room, wanted)
        self.bytes_from_cache += min(cached, got)
        if cached < got:
            os.posix_fadvise(descriptor, start, got, os.POSIX_FADV_DONTNEED)
        return got

    def _loop(self, descriptor: int, start: int, room: int, wanted: int) -> int:
        got = 0
        while got < wanted:
            count = os.preadv(descriptor, [self._buffer[got:room]], start + got)
            got += count
            if count == 0 or (got % ALIGN_BYTES and got < wanted):
                break
        return got

    def _cached(self, descriptor: int, start: int, room: int) -> int:
        """Bytes of the range that lie in the page cache (0 where that cannot be asked)."""
        try:
            return os.preadv(descriptor, [self._buffer[:room]], start, os.RWF_NOWAIT)
        except OSError:
            return 0


def is_direct(descriptor: int) -> bool:
    """Whether reads bypass the page cache."""
    return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT)


def set_direct(descriptor: int, on: bool) -> None:
    """Switch O_DIRECT; a file system that has none leaves it off."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT if on else flags & ~os.O_DIRECT)
    except OSError:
        return
