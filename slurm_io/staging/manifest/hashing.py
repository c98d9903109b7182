"""Digests of one open file: whole, of its two ends, and of its chunks, in one pass.

Takes open descriptors only, so that whoever opened the file decides how (see ``beneath``).
A file that changes while it is read is an error, never a digest.

Standard library (and what a digest needs): the prolog loads it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.algorithms import DEFAULT, Hasher, maker_of

END_BYTES = 64 << 10
BLOCK_BYTES = 1 << 20  # fits the second-level cache: larger blocks are hashed out of memory
AHEAD_BLOCK_BYTES = 4 << 20
# Time stamps of files move in steps of a timer tick (4 or 10 ms): a change within the step in which
# the file was last written would not show.
TICK_NS = 11_000_000
OnBytes = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Identity:
    """Which file this is and which state of it: what no ordinary write leaves as it was."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> Identity:
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class FileDigest:
    """`digest`, `ends`: ``ALGORITHM:HEX``; `chunks`: hex; as :class:`FileEntry` has them."""

    identity: Identity
    digest: str
    ends: str | None = None
    chunks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HowToHash:
    """What to make of a file. `chunk_bytes` None: no chunks (nor for a file of one chunk only).

    `drop_cache`: give the file's pages back to the kernel behind the reader. It drops pages that a
    neighbour had there before as well, so it is for fresh copies, not for nodes at work.
    `read_ahead`: how many blocks of a large file are read at once.
    """

    algorithm: str = DEFAULT
    ends: bool = True
    chunk_bytes: int | None = None
    drop_cache: bool = False
    read_ahead: int = 1


def digest_file(
    fd: int, how: HowToHash | None = None, on_bytes: OnBytes | None = None
) -> FileDigest:
    """Digests of the whole regular file `fd` is open on, from its first byte.

    `on_bytes` is told how many more bytes were read. Raises ManifestError when the file is not
    regular or changes meanwhile, OSError when it cannot be read.
    """
    how = how or HowToHash()
    make = maker_of(how.algorithm)
    before = _settled(fd)
    whole = _Sink(make(), make if _has_chunks(before, how) else None, how.chunk_bytes or 0)
    done = 0
    for block in _blocks(fd, before.size_bytes, how):
        whole.update(block)
        done += len(block)
        if on_bytes:
            on_bytes(len(block))
    digest = f"{how.algorithm}:{whole.hexdigest()}"
    ends = _ends(fd, before.size_bytes, how, digest)
    if done != before.size_bytes or Identity.of(os.fstat(fd)) != before:
        raise ManifestError("changed while it was read")
    return FileDigest(before, digest, ends, whole.chunk_digits())


def ends_of(fd: int, size_bytes: int, algorithm: str = DEFAULT) -> str:
    """``ALGORITHM:HEX`` of the first and last 64 KiB (up to 128 KiB: of all, once).

    A file shorter than `size_bytes` gives another digest, not an error.
    """
    hasher = maker_of(algorithm)()
    for start, length in end_ranges(size_bytes):
        hasher.update(_pread(fd, length, start))
    return f"{algorithm}:{hasher.hexdigest()}"


def _ends(fd: int, size_bytes: int, how: HowToHash, whole: str) -> str | None:
    if not how.ends:
        return None
    if size_bytes <= 2 * END_BYTES:
        return whole  # both are over the same bytes
    return ends_of(fd, size_bytes, how.algorithm)


def end_ranges(size_bytes: int) -> list[tuple[int, int]]:
    """(offset, length) of the pieces that an `ends` digest covers."""
    if size_bytes <= 2 * END_BYTES:
        return [(0, size_bytes)]
    return [(0, END_BYTES), (size_bytes - END_BYTES, END_BYTES)]


def digest_bytes(data: bytes, algorithm: str = DEFAULT) -> str:
    """``ALGORITHM:HEX`` of bytes in memory."""
    hasher = maker_of(algorithm)()
    hasher.update(data)
    return f"{algorithm}:{hasher.hexdigest()}"


class _Sink:
    """Feeds the whole file's hasher, and one hasher a chunk."""

    def __init__(self, whole: Hasher, make: Callable[[], Hasher] | None, chunk_bytes: int) -> None:
        self._whole = whole
        self._make = make
        self._chunk_bytes = chunk_bytes
        self._chunk: Hasher | None = None
        self._room = 0
        self._digits: list[str] = []

    def update(self, block: memoryview) -> None:
        self._whole.update(block)
        while self._make is not None and block:
            if self._chunk is None:
                self._chunk, self._room = self._make(), self._chunk_bytes
            part, block = block[: self._room], block[self._room :]
            self._chunk.update(part)
            self._room -= len(part)
            if not self._room:
                self._close_chunk()

    def _close_chunk(self) -> None:
        if self._chunk is not None:
            self._digits.append(self._chunk.hexdigest())
            self._chunk = None

    def hexdigest(self) -> str:
        return self._whole.hexdigest()

    def chunk_digits(self) -> tuple[str, ...]:
        self._close_chunk()
        return tuple(self._digits)


def _has_chunks(identity: Identity, how: HowToHash) -> bool:
    return how.chunk_bytes is not None and identity.size_bytes > how.chunk_bytes


def _settled(fd: int) -> Identity:
    """What the file is, once its time stamps are old enough for a change to show in them."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise ManifestError("is not a regular file")
    age_ns = time.time_ns() - found.st_ctime_ns
    tick_ns = _tick_ns(found.st_ctime_ns)
    if 0 <= age_ns < tick_ns:
        time.sleep((tick_ns - age_ns) / 1e9)
        found = os.fstat(fd)
    return Identity.of(found)


def _tick_ns(ctime_ns: int) -> int:
    """How far apart two time stamps of a file system are; some keep whole seconds only."""
    return TICK_NS if ctime_ns % 1_000_000_000 else 1_000_000_000 + TICK_NS


def _blocks(fd: int, size_bytes: int, how: HowToHash) -> Iterator[memoryview]:
    """The file's blocks in order; one block more would mean that the file grew."""
    if how.read_ahead > 1 and size_bytes > 4 * AHEAD_BLOCK_BYTES:
        blocks = _blocks_ahead(fd, size_bytes, how.read_ahead)
    else:
        blocks = _blocks_in_turn(fd, size_bytes)
    start = 0
    for block in blocks:
        yield block
        if how.drop_cache:
            os.posix_fadvise(fd, start, len(block), os.POSIX_FADV_DONTNEED)
        start += len(block)


def _blocks_in_turn(fd: int, size_bytes: int) -> Iterator[memoryview]:
    buffer = memoryview(bytearray(min(BLOCK_BYTES, size_bytes)))
    start = 0
    while start < size_bytes:
        count = os.preadv(fd, [buffer], start)
        if not count:
            return
        yield buffer[: min(count, size_bytes - start)]
        start += count


def _blocks_ahead(fd: int, size_bytes: int, depth: int) -> Iterator[memoryview]:
    """Blocks in order while `depth` threads read the next ones: one file as fast as its storage."""
    from collections import deque
    from concurrent.futures import Future, ThreadPoolExecutor

    # Buffers go round: fresh ones would cost more in page faults than hashing does.
    free = [memoryview(bytearray(AHEAD_BLOCK_BYTES)) for _ in range(depth + 1)]
    starts = iter(range(0, size_bytes, AHEAD_BLOCK_BYTES))
    window: deque[tuple[Future[int], memoryview]] = deque()
    with ThreadPoolExecutor(depth) as pool:
        while True:
            while free and (start := next(starts, None)) is not None:
                buffer = free.pop()
                wanted = buffer[: size_bytes - start]
                window.append((pool.submit(_read_into, fd, wanted, start), buffer))
            if not window:
                return
            future, buffer = window.popleft()
            yield buffer[: future.result()]
            free.append(buffer)


def _read_into(fd: int, buffer: memoryview, start: int) -> int:
    """Fill a buffer unless the file ends before; how many bytes."""
    done = 0
    while done < len(buffer):
        count = os.preadv(fd, [buffer[done:]], start + done)
        if not count:
            break
        done += count
    return done


def _pread(fd: int, length: int, start: int) -> bytes:
    """`length` bytes unless the file ends before."""
    parts = []
    while length > 0:
        part = os.pread(fd, length, start)
        if not part:
            break
        parts.append(part)
        length -= len(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
