"""Full hashes of many files: all cores, chunk by chunk where the manifest has chunk digests.

The main thread opens files and keeps the books; workers read and hash (both without the
interpreter's lock). A file's stamp is taken before and after: what changed meanwhile is not proven.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.algorithms import Hasher, maker_of
from slurm_io.staging.manifest.paths import encode_path, printable
from slurm_io.staging.verify.l1 import stamp_of
from slurm_io.staging.verify.l2 import not_resident
from slurm_io.staging.verify.reading import Reader, set_direct
from slurm_io.staging.verify.table import Row, Stamp
from slurm_io.staging.verify.tree import NotAFile, open_file
from slurm_io.staging.verify.work import Work

LEAST_WORKERS = 4
BATCH = 100


@dataclass
class FileRun:
    """One file under way. `pieces_left` reach 0 when all its pieces were looked at or given up."""

    index: int
    row: Row
    descriptor: int
    stamp: Stamp
    pieces_left: int
    bad_ranges: list[tuple[int, int]] = field(default_factory=list)
    error: str = ""
    cut: bool = False
    done_bytes: int = 0


@dataclass(frozen=True)
class Piece:
    """What one worker hashes at once."""

    run: FileRun
    start: int
    length: int
    algorithm: str
    digits: str


@dataclass(frozen=True)
class Done:
    """How a piece went: `right` None = given up because the time was over."""

    piece: Piece
    right: bool | None
    error: str = ""


class HashPool:
    """Worker threads with a buffer each: ``HashPool(work, level).run(rows)``."""

    def __init__(self, work: Work, level: int, total_bytes: int = 0) -> None:
        self._work = work
        self._level = level
        self._total_bytes = total_bytes
        self._done_bytes = 0
        options = work.options
        self._count = options.workers or max(LEAST_WORKERS, os.cpu_count() or 1)
        self._pieces: queue.SimpleQueue[Piece | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Done] = queue.SimpleQueue()
        self._readers = [Reader(options.block_bytes) for _ in range(self._count)]
        self._threads = [
            threading.Thread(target=self._loop, args=(reader,), daemon=True)
            for reader in self._readers
        ]
        self._pending = 0
        self.finished: set[int] = set()

    def run(self, rows: Iterable[tuple[int, Row]]) -> set[int]:
        """Hash files; the numbers of those hashed to their end, good or bad. One use only."""
        for thread in self._threads:
            thread.start()
        try:
            for piece in self._all_pieces(rows):
                self._pieces.put(piece)
                self._pending += 1
                while self._pending >= 2 * self._count:
                    self._settle(self._done.get())
            while self._pending:
                self._settle(self._done.get())
        finally:
            for _ in self._threads:
                self._pieces.put(None)
            for thread in self._threads:
                thread.join()
            self._account()
        return self.finished

    def _account(self) -> None:
        for reader in self._readers:
            self._work.bytes_read += reader.bytes_read
            self._work.bytes_from_cache += reader.bytes_from_cache
            reader.close()

    def _all_pieces(self, rows: Iterable[tuple[int, Row]]) -> Iterator[Piece]:
        waiting = iter(rows)
        while batch := list(islice(waiting, BATCH)):
            away = not_resident(self._work, batch)
            for index, row in batch:
                if self._work.deadline.over():
                    return
                if not self._work.findings.is_bad(index) and row.entry.path not in away:
                    yield from self._pieces_of_file(index, row)

    def _pieces_of_file(self, index: int, row: Row) -> list[Piece]:
        run = self._open(index, row)
        if run is None:
            return []
        journal = self._work.journal
        if journal is not None and journal.has(index, run.stamp):
            os.close(run.descriptor)
            self._finish(run)
            return []
        return self._pieces_of(run)

    def _open(self, index: int, row: Row) -> FileRun | None:
        work, path = self._work, encode_path(row.entry.path)
        folder, _, name = path.rpartition(b"/")
        try:
            descriptor, found = open_file(work.tree.folder(folder), name)
        except NotAFile as error:
            work.bad(path, "not a file", self._level, f"is {error}", index)
        except FileNotFoundError:
            work.bad(path, "missing", self._level, "", index)
        except OSError as error:
            work.bad(path, "unreadable", self._level, error.strerror or str(error), index)
        else:
            if row.entry.size_bytes in (None, found.st_size):
                set_direct(descriptor, True)
                return FileRun(index, row, descriptor, stamp_of(found), 0)
            os.close(descriptor)
            detail = f"{found.st_size} bytes instead of {row.entry.size_bytes}"
            shorter = found.st_size < (row.entry.size_bytes or 0)
            work.bad(path, "truncated" if shorter else "longer", self._level, detail, index)
        return None

    def _pieces_of(self, run: FileRun) -> list[Piece]:
        entry, size = run.row.entry, run.stamp[1]
        chunk_bytes = self._work.expected.chunk_bytes
        if chunk_bytes and len(entry.chunks) > 1:
            algorithm = self._work.expected.algorithm
            starts = range(0, size, chunk_bytes)
            pieces = [
                Piece(run, start, min(chunk_bytes, size - start), algorithm, digits)
                for start, digits in zip(starts, entry.chunks, strict=False)
            ]
            self._work.note("files in chunks: their chunk digests were compared, not the whole's")
        elif entry.digest is None:
            self._work.note("files without a digest in the manifest were not hashed")
            os.close(run.descriptor)
            return []
        else:
            algorithm, _, digits = entry.digest.partition(":")
            pieces = [Piece(run, 0, size, algorithm, digits)]
        run.pieces_left = len(pieces)
        return pieces

    def _loop(self, reader: Reader) -> None:
        while (piece := self._pieces.get()) is not None:
            self._done.put(self._hash(reader, piece))

    def _hash(self, reader: Reader, piece: Piece) -> Done:
        try:
            hasher = maker_of(piece.algorithm)()
            return Done(piece, self._feed(reader, piece, hasher))
        except ManifestError as error:
            return Done(piece, None, str(error))
        except OSError as error:
            return Done(piece, False, error.strerror or str(error))

    def _feed(self, reader: Reader, piece: Piece, hasher: Hasher) -> bool | None:
        at, end = piece.start, piece.start + piece.length
        while at < end:
            if self._work.deadline.over():
                return None
            block = reader.read(piece.run.descriptor, at, end - at)
            if not block:
                return False
            hasher.update(block)
            at += len(block)
        return hasher.hexdigest() == piece.digits

    def _settle(self, done: Done) -> None:
        self._pending -= 1
        run = done.piece.run
        run.pieces_left -= 1
        run.done_bytes += done.piece.length
        if done.right is None:
            run.cut = True
            if done.error:
                self._work.note(f"files not hashed: {printable(done.error)}")
        elif not done.right:
            run.bad_ranges.append((done.piece.start, done.piece.length))
            run.error = run.error or done.error
        self._done_bytes += done.piece.length
        self._work.progress(self._level, self._done_bytes, self._total_bytes)
        if run.pieces_left == 0:
            self._close(run)

    def _close(self, run: FileRun) -> None:
        try:
            after = stamp_of(os.fstat(run.descriptor))
            self._judge(run, after)
        finally:
            os.close(run.descriptor)

    def _judge(self, run: FileRun, after: Stamp) -> None:
        work, path = self._work, encode_path(run.row.entry.path)
        if run.bad_ranges:
            whole = run.bad_ranges == [(0, run.stamp[1])]
            ranges = () if whole else tuple(sorted(run.bad_ranges))
            if run.error:
                work.bad(path, "unreadable", self._level, run.error, run.index, ranges)
            elif _ends_in_zeros(run):
                detail = "its digest is another one and its end is zeros"
                work.bad(path, "zero tail", self._level, detail, run.index, ranges)
            else:
                detail = "same size, but its digest is another one"
                work.bad(path, "content", self._level, detail, run.index, ranges)
        elif not run.cut and after != run.stamp:
            work.bad(path, "changed", self._level, "changed while it was read", run.index)
        if run.cut:
            return
        if run.bad_ranges or after != run.stamp:
            self.finished.add(run.index)
            work.files_hashed += 1
            return
        if work.journal is not None:
            work.journal.add(run.index, run.stamp)
        self._finish(run)

    def _finish(self, run: FileRun) -> None:
        """The whole content was right."""
        work = self._work
        self.finished.add(run.index)
        work.files_hashed += 1
        work.findings.clear(run.index)
        if work.proof is not None:
            work.proof.prove(run.index, run.stamp, 4)


def _ends_in_zeros(run: FileRun) -> bool:
    size = run.stamp[1]
    length = min(size, 4096)
    set_direct(run.descriptor, False)
    try:
        tail = os.pread(run.descriptor, length, size - length)
    except OSError:
        return False
    return bool(tail) and not any(tail)
