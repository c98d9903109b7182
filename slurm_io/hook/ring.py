"""The ring a rank writes and the sampler reads: a preallocated, mapped file; no call per record.

Creation may fail in any way a file can (folder gone, disk full, size limit): the caller turns the
hook off then. Writing cannot fail, because every page was allocated before the first record.
"""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import sys
import time

from . import greeting, record, text

_MAP_POPULATE = getattr(mmap, "MAP_POPULATE", 0x8000)  # named since 3.10, the same on x86 and ARM
_BYTES = record.HEADER_BYTES + record.RECORD_BYTES * record.N_RECORDS
_MASK = record.N_RECORDS - 1
_FIRST_PID_NAMESPACE = "4026531836"  # PROC_PID_INIT_INO of the kernel


class Ring:
    """Writer of one mapped ring. Records of several threads do not mix: each takes its own number.

    `words` (the mapping in units of 8 bytes) and `numbers` are open for the hot path (clock.py),
    which writes its batches itself.
    """

    __slots__ = ("mapped", "words", "numbers", "_text_ids")

    def __init__(self, mapped: mmap.mmap) -> None:
        self.mapped = mapped
        self.words = memoryview(mapped).cast("Q")
        self.numbers = itertools.count()  # next() on it is atomic
        self._text_ids = itertools.count(1)

    def enter(self, phase: int, loader_id: int, now_ns: int) -> None:
        """The main thread is in `phase` since `now_ns`."""
        record.PHASE.pack_into(self.mapped, record.PHASE_OFFSET, phase, loader_id, now_ns)

    def event(
        self, flags: int, kind: int, start_ns: int, end_ns: int, steps: int,
        n_bytes: int = record.UNKNOWN, told: bytes = b"",
    ) -> None:  # fmt: skip
        """One EVENT record, after the TEXT records that carry `told`."""
        pieces = text.parts(told)
        text_id = next(self._text_ids) if pieces else 0
        for part, piece in enumerate(pieces):
            i = next(self.numbers)
            record.TEXT.pack_into(
                self.mapped, self._offset(i), i + 1, record.KIND_TEXT, len(piece), part, text_id,
                piece, i + 1,
            )  # fmt: skip
        i = next(self.numbers)
        record.TIMED.pack_into(
            self.mapped, self._offset(i), i + 1, record.KIND_EVENT, flags, kind, len(pieces),
            start_ns, end_ns, text_id, steps, 0, n_bytes, i + 1,
        )  # fmt: skip
        record.COUNT.pack_into(self.mapped, record.COUNT_OFFSET, i + 1)

    def close(self) -> None:
        """Say that the process ended in order. The mapping stays: other threads may still write."""
        record.STATE.pack_into(self.mapped, record.STATE_OFFSET, record.CLOSED)

    @staticmethod
    def _offset(number: int) -> int:
        return record.HEADER_BYTES + (number & _MASK) * record.RECORD_BYTES


def create_ring(folder: str) -> Ring:
    """A new ring for this process in `folder`. Raises OSError; leaves no half-made file behind."""
    _refuse_small_file_limit()
    if sys.byteorder != "little":  # the hot path stores native words
        raise OSError(errno.ENOTSUP, "rings are little endian, this machine is not")
    starttime = greeting.process_starttime()
    path = os.path.join(folder, "ring-%d-%d%s" % (os.getpid(), starttime, _pid_namespace()))
    fd = _open_new(path)
    try:
        os.posix_fallocate(fd, 0, _BYTES)
        mapped = mmap.mmap(fd, _BYTES, flags=mmap.MAP_SHARED | _MAP_POPULATE)
        _write_header(mapped, greeting.greet(starttime))
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(fd)
    return Ring(mapped)


def _pid_namespace() -> str:
    """``.NUMBER`` in a pid namespace of its own (containers): two of them count alike, and their
    processes may start in the same tick. Nothing in the machine's own."""
    try:
        number = os.readlink("/proc/self/ns/pid")[len("pid:[") : -1]
    except OSError:
        return ""
    return "" if number == _FIRST_PID_NAMESPACE or not number.isdigit() else "." + number


def _open_new(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileExistsError:
        # The name holds our pid, start time and namespace: it is our own, from before an exec.
        os.unlink(path)
        return os.open(path, flags, 0o600)


def _refuse_small_file_limit() -> None:
    # Past RLIMIT_FSIZE the kernel sends SIGXFSZ, which kills a program that set it back to default.
    import resource

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and limit < _BYTES:
        raise OSError(errno.EFBIG, "the file size limit is smaller than a ring")


def _write_header(mapped: mmap.mmap, hello: bytes) -> None:
    mapped[record.GREETING_OFFSET : record.GREETING_OFFSET + len(hello)] = hello
    record.PHASE_AND_COUNT.pack_into(
        mapped, record.PHASE_OFFSET, record.STEP, 0, time.monotonic_ns(), 0
    )
    record.STATE.pack_into(mapped, record.STATE_OFFSET, record.ALIVE)
    head = record.FIXED_HEADER.pack(
        b"",
        record.HEADER_BYTES,
        record.RECORD_BYTES,
        record.N_RECORDS,
        len(hello),
        _clock_offset_ns(),
    )
    mapped[8 : len(head)] = head[8:]
    mapped[0:8] = record.MAGIC  # last: a reader that sees it sees a whole header


def _clock_offset_ns() -> int:
    """CLOCK_REALTIME − CLOCK_MONOTONIC, from the tightest of three readings."""
    readings = []
    for _ in range(3):
        before = time.monotonic_ns()
        real = time.time_ns()
        after = time.monotonic_ns()
        readings.append((after - before, real - (before + after) // 2))
    return min(readings)[1]
