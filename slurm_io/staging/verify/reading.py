"""Reads of file data that come from the medium where possible and leave the page cache alone.

O_DIRECT where the file system takes it. Elsewhere pages that were not in the cache before are
given back afterwards; pages that were belong to a neighbour, stay, and are counted: a hash of them
says nothing of the medium.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections import deque
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from slurm_io.staging.beneath import open_regular
from slurm_io.staging.buffers import aligned_buffer

if TYPE_CHECKING:
    from concurrent.futures import Future

ALIGN_BYTES = 4096


class Reader:
    """One aligned buffer of `block_bytes`, and how many bytes came through it.

    Not for several threads at once.
    """

    def __init__(self, block_bytes: int) -> None:
        self._buffer = aligned_buffer(-(-block_bytes // ALIGN_BYTES) * ALIGN_BYTES)
        self.block_bytes = len(self._buffer)
        self.bytes_read = 0
        self.bytes_from_cache = 0

    def close(self) -> None:
        """Give the buffer back."""
        self._buffer.release()

    def read(self, descriptor: int, start: int, length: int) -> memoryview:
        """At most `length` bytes from `start`, less at the file's end; valid until the next call.

        A read that begins between two pages gives less than `block_bytes`, by up to a page.
        Raises OSError.
        """
        skip = start % ALIGN_BYTES
        wanted = min(skip + length, len(self._buffer))
        room = -(-wanted // ALIGN_BYTES) * ALIGN_BYTES
        got = self._fill(descriptor, start - skip, room, wanted)
        found = self._buffer[min(skip, got) : min(got, wanted)]
        self.bytes_read += len(found)
        return found

    def _fill(self, descriptor: int, start: int, room: int, wanted: int) -> int:
        if is_direct(descriptor):
            try:
                return self._loop(descriptor, start, room, wanted)
            except OSError as error:
                if error.errno != errno.EINVAL:  # this file system wants another alignment
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


def read_in_turn(
    reader: Reader, descriptor: int, start: int, length: int
) -> Generator[memoryview, None, None]:
    """Blocks in order, each valid until the next; fewer bytes where the file ends before.

    Raises OSError.
    """
    end = start + length
    while start < end:
        block = reader.read(descriptor, start, end - start)
        if not block:
            return
        yield block
        start += len(block)


def read_ahead(
    readers: Sequence[Reader], descriptor: int, start: int, length: int
) -> Generator[memoryview, None, None]:
    """As :func:`read_in_turn`, every reader but one on a block of its own at any time.

    `start` must be on a page: a single huge file, which one read at a time cannot fetch as fast as
    its storage could give it.
    """
    from concurrent.futures import ThreadPoolExecutor

    step, end = readers[0].block_bytes, start + length
    starts = iter(range(start, end, step))
    free = deque(readers)
    window: deque[tuple[Future[memoryview], Reader]] = deque()
    with ThreadPoolExecutor(len(readers) - 1) as threads:
        while True:
            while free and (at := next(starts, None)) is not None:
                reader = free.popleft()
                future = threads.submit(reader.read, descriptor, at, min(step, end - at))
                window.append((future, reader))
            if not window:
                return
            future, reader = window.popleft()
            block = future.result()
            if not block:
                return
            yield block
            free.append(reader)


def open_direct(folder: int, name: bytes) -> tuple[int, os.stat_result]:
    """A regular file inside an open folder, with O_DIRECT where that is known, and its stat.

    Raises NotAFile, OSError.
    """
    try:
        return open_regular(folder, name, os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return open_regular(folder, name)


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
