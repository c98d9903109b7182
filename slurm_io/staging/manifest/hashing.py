"""Digests of open files: whole, of the two ends, and of chunks, in one pass over the bytes.

Takes open descriptors only, so that whoever opened the file decides how (see ``staging.beneath``).
A file that changes while it is read is an error, never a digest.

Standard library (and what a digest needs): the prolog loads it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

from slurm_io.errors import ManifestError
from slurm_io.records import dataclass
from slurm_io.staging.buffers import aligned_buffer
from slurm_io.staging.manifest.algorithms import DEFAULT, Hasher, maker_of
from slurm_io.staging.manifest.blocks import (
    AHEAD_BLOCK_BYTES,
    BLOCK_BYTES,
    blocks_ahead,
    blocks_in_turn,
    pread_all,
    read_into,
)

END_BYTES = 64 << 10
# Time stamps of files move in steps of a timer tick (4 or 10 ms): a change within the step in which
# the file was last written would not show.
TICK_NS = 11_000_000
OnBytes = Callable[[int], None]
_IDENTITY = attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")


class Identity(NamedTuple):
    """Which file this is and which state of it: what no ordinary write leaves as it was."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> Identity:
        return cls._make(_IDENTITY(found))

    def holds(self, found: os.stat_result) -> bool:
        """Whether a file is still this one and in this state."""
        return _IDENTITY(found) == self


class FileDigest(NamedTuple):
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
    """

    algorithm: str = DEFAULT
    ends: bool = True
    chunk_bytes: int | None = None
    drop_cache: bool = False


class FileHasher:
    """Makes the digests of one file after the other, with one buffer for all."""

    def __init__(self, how: HowToHash) -> None:
        """Raises ManifestError: unknown algorithm, package missing."""
        self._how = how
        self._make = maker_of(how.algorithm)
        self._buffer = aligned_buffer(BLOCK_BYTES)
        # Of a file so small both ends are the whole, and one read gets all of it.
        self._can_ask = True
        self._small_max = min(2 * END_BYTES, how.chunk_bytes or 2 * END_BYTES)

    def digest(self, fd: int, on_bytes: OnBytes | None = None, ahead: int = 1) -> FileDigest:
        """Digests of the whole regular file `fd` is open on, from its first byte.

        `on_bytes` is told how many more bytes were read. `ahead` over 1: so many threads read
        ahead, and one more makes the chunks' digests, so that a single huge file goes as fast as
        one core makes the digest of the whole. Raises ManifestError when the file is not regular
        or changes meanwhile, OSError when it cannot be read.
        """
        return self.finish(fd, _settled(fd), on_bytes, ahead)

    def begin(self, fd: int) -> FileDigest | Identity:
        """The digests of a small file whose bytes the kernel has already.

        Else the kernel begins to read, and :meth:`finish` makes the digests of what it was given.
        Raises as :meth:`digest` does.
        """
        before = _settled(fd)
        size = before.size_bytes
        if size <= self._small_max and self._can_ask:
            try:
                count = os.preadv(fd, [self._buffer[:size]], 0, os.RWF_NOWAIT)
            except BlockingIOError:
                count = -1
            except OSError as error:
                self._can_ask = error.errno != errno.EOPNOTSUPP
                count = -1
            if count == size:
                return self._of_buffer(fd, before)
        os.posix_fadvise(fd, 0, min(size, BLOCK_BYTES), os.POSIX_FADV_WILLNEED)
        return before

    def finish(
        self, fd: int, before: Identity, on_bytes: OnBytes | None = None, ahead: int = 1
    ) -> FileDigest:
        """As :meth:`digest`, of a file that was `before` when :meth:`begin` looked."""
        size = before.size_bytes
        if size > self._small_max:
            return self._large_file(fd, before, on_bytes, ahead)
        if on_bytes:
            on_bytes(size)
        if read_into(fd, self._buffer[:size], 0) != size:
            raise ManifestError("changed while it was read")
        return self._of_buffer(fd, before)

    def _of_buffer(self, fd: int, before: Identity) -> FileDigest:
        """Of a small file that was read; raises ManifestError when it is another one by now."""
        hasher = self._make()
        hasher.update(self._buffer[: before.size_bytes])
        digest = f"{self._how.algorithm}:{hasher.hexdigest()}"
        self._drop(fd, 0, before.size_bytes)
        if not before.holds(os.fstat(fd)):
            raise ManifestError("changed while it was read")
        return FileDigest(before, digest, digest if self._how.ends else None)

    def _large_file(
        self, fd: int, before: Identity, on_bytes: OnBytes | None, ahead: int
    ) -> FileDigest:
        size = before.size_bytes
        whole = maker_of(self._how.algorithm, many_threads=ahead > 1)()
        chunks = _Chunks(self._make, self._how.chunk_bytes or size)
        has_chunks = self._how.chunk_bytes is not None and size > self._how.chunk_bytes
        beside = chunks.update if has_chunks else None
        if ahead > 1 and size > 4 * AHEAD_BLOCK_BYTES:
            blocks = blocks_ahead(fd, size, ahead, beside)
            beside = None
        else:
            blocks = blocks_in_turn(fd, size, self._buffer)
        done = 0
        with contextlib.closing(blocks):  # whatever `on_bytes` raises, the readers end
            for block in blocks:
                whole.update(block)
                if beside is not None:
                    beside(block)
                self._drop(fd, done, len(block))
                done += len(block)
                if on_bytes:
                    on_bytes(len(block))
        digest = f"{self._how.algorithm}:{whole.hexdigest()}"
        ends = self._ends(fd, size, digest)
        if done != size or not before.holds(os.fstat(fd)):
            raise ManifestError("changed while it was read")
        return FileDigest(before, digest, ends, chunks.digits())

    def _ends(self, fd: int, size_bytes: int, whole: str) -> str | None:
        if not self._how.ends:
            return None
        if size_bytes <= 2 * END_BYTES:
            return whole  # both are over the same bytes
        return ends_of(fd, size_bytes, self._how.algorithm)

    def _drop(self, fd: int, start: int, length: int) -> None:
        if self._how.drop_cache:
            os.posix_fadvise(fd, start, length, os.POSIX_FADV_DONTNEED)


def digest_file(
    fd: int, how: HowToHash | None = None, on_bytes: OnBytes | None = None, ahead: int = 1
) -> FileDigest:
    """:meth:`FileHasher.digest` for a single file."""
    return FileHasher(how or HowToHash()).digest(fd, on_bytes, ahead)


def ends_of(fd: int, size_bytes: int, algorithm: str = DEFAULT) -> str:
    """``ALGORITHM:HEX`` of the first and last 64 KiB (up to 128 KiB: of all, once).

    A file shorter than `size_bytes` gives another digest, not an error.
    """
    hasher = maker_of(algorithm)()
    for start, length in end_ranges(size_bytes):
        hasher.update(pread_all(fd, length, start))
    return f"{algorithm}:{hasher.hexdigest()}"


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


class _Chunks:
    """One hasher a chunk, fed with the file's blocks in order."""

    def __init__(self, make: Callable[[], Hasher], chunk_bytes: int) -> None:
        self._make = make
        self._chunk_bytes = chunk_bytes
        self._chunk: Hasher | None = None
        self._room = 0
        self._digits: list[str] = []

    def update(self, block: memoryview) -> None:
        while block:
            if self._chunk is None:
                self._chunk, self._room = self._make(), self._chunk_bytes
            part, block = block[: self._room], block[self._room :]
            self._chunk.update(part)
            self._room -= len(part)
            if not self._room:
                self._close()

    def digits(self) -> tuple[str, ...]:
        """Of all chunks, once the last block was fed."""
        self._close()
        return tuple(self._digits)

    def _close(self) -> None:
        if self._chunk is not None:
            self._digits.append(self._chunk.hexdigest())
            self._chunk = None


def _settled(fd: int) -> Identity:
    """What the file is, once its time stamps are old enough for a change to show in them."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise ManifestError("is not a regular file")
    age_ns = time.time_ns() - found.st_ctime_ns
    if 0 <= age_ns < 2_000_000_000:
        tick_ns = _tick_ns(found.st_ctime_ns)
        if age_ns < tick_ns:
            time.sleep((tick_ns - age_ns) / 1e9)
            found = os.fstat(fd)
    return Identity.of(found)


def _tick_ns(ctime_ns: int) -> int:
    """How far apart two time stamps of a file system are; some keep whole seconds only."""
    return TICK_NS if ctime_ns % 1_000_000_000 else 1_000_000_000 + TICK_NS
