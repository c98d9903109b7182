"""The bytes of one large file, block by block and in order, read in turn or ahead.

Standard library only.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from slurm_io.staging.buffers import aligned_buffer

if TYPE_CHECKING:
    from concurrent.futures import Future

BLOCK_BYTES = 1 << 20  # fits the second-level cache: larger blocks are hashed out of memory
AHEAD_BLOCK_BYTES = 2 << 20


def blocks_in_turn(
    fd: int, size_bytes: int, buffer: memoryview
) -> Generator[memoryview, None, None]:
    """Blocks of the buffer's size, each valid until the next; fewer where the file ends before.

    The kernel reads ahead while one block is hashed.
    """
    if size_bytes > len(buffer):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
    start = 0
    while start < size_bytes:
        count = os.preadv(fd, [buffer], start)
        if not count:
            return
        yield buffer[: min(count, size_bytes - start)]
        start += count


def blocks_ahead(
    fd: int, size_bytes: int, depth: int, beside: Callable[[memoryview], None] | None = None
) -> Generator[memoryview, None, None]:
    """Blocks of 2 MiB while `depth` threads read the next ones: one file as fast as its storage.

    `beside` gets every block too, in order, from a thread of its own. A block is valid until the
    next one. Raises what reading or `beside` raised.
    """
    from concurrent.futures import ThreadPoolExecutor

    # Buffers go round: fresh ones would cost more in page faults than hashing does.
    free = deque(aligned_buffer(AHEAD_BLOCK_BYTES) for _ in range(depth + 2))
    starts = iter(range(0, size_bytes, AHEAD_BLOCK_BYTES))
    window: deque[tuple[Future[int], memoryview]] = deque()
    in_use: deque[tuple[Future[None] | None, memoryview]] = deque()
    with ThreadPoolExecutor(depth) as readers, ThreadPoolExecutor(1) as other:
        while True:
            while free and (start := next(starts, None)) is not None:
                buffer = free.popleft()
                wanted = buffer[: size_bytes - start]
                window.append((readers.submit(read_into, fd, wanted, start), buffer))
            if not window:
                break
            reading, buffer = window.popleft()
            block = buffer[: reading.result()]
            in_use.append((other.submit(beside, block) if beside else None, buffer))
            yield block
            if len(in_use) > (1 if beside else 0):  # the other one may be a block behind
                free.append(_finished(in_use.popleft()))
        while in_use:
            _finished(in_use.popleft())


def read_into(fd: int, buffer: memoryview, start: int) -> int:
    """Fill a buffer unless the file ends before; how many bytes. Raises OSError."""
    done = 0
    while done < len(buffer):
        count = os.preadv(fd, [buffer[done:]], start + done)
        if not count:
            break
        done += count
    return done


def pread_all(fd: int, length: int, start: int) -> bytes:
    """`length` bytes unless the file ends before. Raises OSError."""
    buffer = bytearray(length)
    return bytes(memoryview(buffer)[: read_into(fd, memoryview(buffer), start)])


def _finished(used: tuple[Future[None] | None, memoryview]) -> memoryview:
    """A buffer that nobody reads any more."""
    future, buffer = used
    if future is not None:
        future.result()
    return buffer
