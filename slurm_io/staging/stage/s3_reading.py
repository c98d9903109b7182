"""One call of the engine ``boto``: small objects side by side, large ones piece by piece."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Self

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage import landing
from slurm_io.staging.stage.brake import Brake
from slurm_io.staging.stage.engines.base import FetchOptions, Ranges
from slurm_io.staging.stage.model import Failure, Fetched
from slurm_io.staging.stage.s3_client import S3Fault, Stopped, Wanted, read, size_of
from slurm_io.staging.stage.s3_place import S3Place
from slurm_io.staging.stage.s3_text import CHANGED, NO_KEY

PIECE_BYTES = 8 << 20
AT_ONCE = 8
"""Pieces in flight, and in memory, of one call."""
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE = 0o600


class S3Call:
    """Objects of one place into one room. Use with ``with``; raises nothing about files."""

    def __init__(self, client: Any, place: S3Place, room: str, options: FetchOptions) -> None:
        self._client = client
        self._place = place
        self._room = room
        self._options = options
        self._brake = Brake(options.bandwidth_bytes_s, options.stop)
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="s3")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def files(self, entries: Iterable[FileEntry]) -> Fetched:
        """Whole files; what is there of them already is gone on with."""
        small: list[FileEntry] = []
        large: list[FileEntry] = []
        for entry in entries:
            size = entry.size_bytes
            (small if size is not None and size <= PIECE_BYTES else large).append(entry)
        futures = [(entry, self._pool.submit(self._told, entry, self._small)) for entry in small]
        answers = [(entry, self._told(entry, self._large)) for entry in large]
        answers += [(entry, future.result()) for entry, future in futures]
        return _summed(answers)

    def ranges(self, entry: FileEntry, ranges: Ranges) -> Fetched:
        """Pieces of one file, into what lies there."""

        def mend(wanted: Wanted) -> int:
            return self._pieces(wanted, _cut(ranges))

        return _summed([(entry, self._told(entry, mend))])

    def _told(self, entry: FileEntry, how: Callable[[Wanted], int]) -> int | Failure:
        """Bytes that came, or why the file is not here."""
        if self._options.stop.is_set():
            return Failure(entry.path, "stopped", "link")
        if (key := self._place.key(entry)) is None:
            return Failure(entry.path, NO_KEY, "source")
        try:
            return how(Wanted(self._place, key, entry))
        except S3Fault as fault:
            if str(fault) == CHANGED and not (entry.etag or entry.version_id):
                landing.discard(self._room, entry.path)  # of which version, nobody knows
            return Failure(entry.path, str(fault), fault.whose)
        except Stopped:
            return Failure(entry.path, "stopped", "link")
        except OSError as error:
            return landing.target_failure(entry, error)

    def _small(self, wanted: Wanted) -> int:
        size = wanted.entry.size_bytes
        assert size is not None
        landing.begun(self._room, wanted.entry)
        data = self._read(wanted, 0, size)
        with self._file(wanted.entry, os.O_TRUNC) as fd:
            self._write(fd, 0, data)
        return size

    def _large(self, wanted: Wanted) -> int:
        if wanted.entry.size_bytes is None:
            size = size_of(self._client, wanted)
            wanted.entry = replace(wanted.entry, size_bytes=size)
        size = wanted.entry.size_bytes or 0
        begun = landing.begun(self._room, wanted.entry)
        if not size:
            return self._small(wanted)
        return self._pieces(wanted, _cut([(begun, size - begun)]))

    def _pieces(self, wanted: Wanted, pieces: Iterator[tuple[int, int]]) -> int:
        """Read several at once, write them in turn: what lies there is always a beginning."""
        waiting: deque[tuple[int, Future[bytes]]] = deque()
        written = 0
        with self._file(wanted.entry) as fd:
            try:
                for start, length in pieces:
                    waiting.append((start, self._pool.submit(self._read, wanted, start, length)))
                    if len(waiting) == AT_ONCE:
                        written += self._write_next(fd, waiting)
                while waiting:
                    written += self._write_next(fd, waiting)
            finally:
                for _, future in waiting:
                    future.cancel()
        return written

    def _write_next(self, fd: int, waiting: deque[tuple[int, Future[bytes]]]) -> int:
        start, future = waiting.popleft()
        return self._write(fd, start, future.result())

    def _read(self, wanted: Wanted, start: int, length: int) -> bytes:
        return read(self._client, wanted, start, length, self._brake, self._options.stop)

    def _write(self, fd: int, start: int, data: bytes) -> int:
        view = memoryview(data)
        while view:
            count = os.pwrite(fd, view, start)
            view, start = view[count:], start + count
        self._options.moved(len(data))
        return len(data)

    def _file(self, entry: FileEntry, flags: int = 0) -> _Opened:
        path = landing.at(self._room, entry.path)
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        return _Opened(os.open(path, _FLAGS | flags, _MODE))


class _Opened:
    """A descriptor that is closed."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *exc: object) -> None:
        os.close(self._fd)


def _cut(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges in pieces that fit into memory."""
    for start, length in ranges:
        for at in range(start, start + length, PIECE_BYTES):
            yield at, min(PIECE_BYTES, start + length - at)


def _summed(answers: list[tuple[FileEntry, int | Failure]]) -> Fetched:
    return Fetched(
        done=tuple(entry.path for entry, answer in answers if isinstance(answer, int)),
        failures=tuple(answer for _, answer in answers if isinstance(answer, Failure)),
        bytes_moved=sum(answer for _, answer in answers if isinstance(answer, int)),
    )
