"""Full hashes of many files: all cores, chunk by chunk where the manifest has chunk digests.

This thread keeps the books and opens large files; workers read and hash, both without the
interpreter's lock, and small files from opening to closing, a batch of one folder at a time. A
file's stamp is taken before and after: what changed meanwhile is not proven.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterable, Iterator
from itertools import islice

from slurm_io.staging.manifest.paths import printable
from slurm_io.staging.verify.l2 import not_resident
from slurm_io.staging.verify.model import Why
from slurm_io.staging.verify.pieces import (
    Answer,
    Batch,
    BatchDone,
    Done,
    FileRun,
    Piece,
    Refused,
    Worker,
    begin,
    settle,
)
from slurm_io.staging.verify.reading import set_direct
from slurm_io.staging.verify.table import Row
from slurm_io.staging.verify.work import Work

LEAST_WORKERS = 4
LEAST_FOR_SMALL = 8
"""More threads than CPUs: a core hashes faster than one read at a time can feed it. Of small files
more reads have to be on their way; of large ones too many only get in each other's."""
ASKED_AT_ONCE = 100
"""Files of whose residency is asked in one go."""
SLOW_FILE_S = 100e-6
"""A small file in memory takes 20 µs of one thread, and more threads only fight for the
interpreter; where it takes so much longer, they wait for the storage, and there may be more."""
SMALL_BYTES = 1 << 20
BATCH_FILES = 64
BATCH_BYTES = 8 << 20
HUGE_BYTES = 256 << 20
MOST_READS = 4


class HashPool:
    """Worker threads with a buffer each: ``HashPool(work, level).run(rows)``."""

    def __init__(self, work: Work, level: int, total_bytes: int = 0) -> None:
        self._work = work
        self._level = level
        self._total_bytes = total_bytes
        self._done_bytes = 0
        cpus = os.cpu_count() or 1
        self._most = work.options.workers or max(LEAST_WORKERS, cpus)
        self._most_for_small = work.options.workers or max(LEAST_FOR_SMALL, cpus)
        self._todo: queue.SimpleQueue[Piece | Batch | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._workers: list[Worker] = []
        self._threads: list[threading.Thread] = []
        self._pending = 0
        self._small: list[tuple[int, Row]] = []
        self._small_bytes = 0
        self._is_slow = False
        self.finished: set[int] = set()

    def run(self, rows: Iterable[tuple[int, Row]]) -> set[int]:
        """Hash files; the numbers of those hashed to their end, good or bad. One use only."""
        try:
            for each in self._everything(rows):
                self._start(each)
                while self._pending >= 2 * self._most_for_small:
                    self._take(self._answers.get())
            while self._pending:
                self._take(self._answers.get())
        finally:
            for _ in self._threads:
                self._todo.put(None)
            for thread in self._threads:
                thread.join()
            self._account()
        return self.finished

    def _start(self, what: Piece | Batch) -> None:
        """Queue it; one more worker when all others have something to do."""
        self._todo.put(what)
        self._pending += 1
        if len(self._workers) < min(self._most_for(what), self._pending):
            work = self._work
            worker = Worker(
                work.tree.fd,
                work.options.block_bytes,
                work.deadline,
                work.journal,
                self._answers.put,
            )
            self._workers.append(worker)
            self._threads.append(threading.Thread(target=self._loop, args=(worker,), daemon=True))
            self._threads[-1].start()

    def _most_for(self, what: Piece | Batch) -> int:
        if isinstance(what, Piece):
            return self._most
        return self._most_for_small if self._is_slow else 1

    def _loop(self, worker: Worker) -> None:
        while (what := self._todo.get()) is not None:
            worker.work(what)

    def _account(self) -> None:
        for worker in self._workers:
            self._work.bytes_read += worker.bytes_read
            self._work.bytes_from_cache += worker.bytes_from_cache
            worker.close()

    def _everything(self, rows: Iterable[tuple[int, Row]]) -> Iterator[Piece | Batch]:
        waiting = iter(rows)
        while asked := list(islice(waiting, ASKED_AT_ONCE)):
            away = not_resident(self._work, asked)
            for index, row in asked:
                if self._work.deadline.over():
                    return
                if self._work.findings.is_bad(index) or row.entry.path in away:
                    continue
                if self._is_small(row):
                    yield from self._add_small(index, row)
                else:
                    yield from self._pieces_of_file(index, row)
        yield from self._small_batch()

    def _is_small(self, row: Row) -> bool:
        """Whether a worker can do all with it: a link takes a look that only this thread takes."""
        size = row.entry.size_bytes
        chunked = self._work.expected.chunk_bytes and len(row.entry.chunks) > 1
        plain = row.entry.digest is not None and not chunked and self._work.links is None
        return plain and size is not None and size <= SMALL_BYTES

    def _add_small(self, index: int, row: Row) -> Iterator[Batch]:
        self._small.append((index, row))
        self._small_bytes += row.entry.size_bytes or 0
        if len(self._small) >= BATCH_FILES or self._small_bytes >= BATCH_BYTES:
            yield from self._small_batch()

    def _small_batch(self) -> Iterator[Batch]:
        if self._small:
            yield Batch(self._small, self._small_bytes)
            self._small, self._small_bytes = [], 0

    def _pieces_of_file(self, index: int, row: Row) -> list[Piece]:
        run = begin(self._work.open, index, row)
        if isinstance(run, Refused):
            self._refuse(run)
            return []
        journal = self._work.journal
        run.is_known = journal is not None and journal.has(index, run.stamp)
        pieces = [] if run.is_known else self._pieces_of(run)
        if pieces:
            set_direct(run.descriptor, True)
        else:
            os.close(run.descriptor)
        if run.is_known:
            self._finish(run)
        return pieces

    def _pieces_of(self, run: FileRun) -> list[Piece]:
        entry, size = run.row.entry, run.stamp[1]
        chunk_bytes = self._work.expected.chunk_bytes
        if chunk_bytes and len(entry.chunks) > 1:
            algorithm = self._work.expected.algorithm
            pieces = [
                Piece(run, start, min(chunk_bytes, size - start), algorithm, digits)
                for start, digits in zip(range(0, size, chunk_bytes), entry.chunks, strict=False)
            ]
            self._work.note("files in chunks: their chunk digests were compared, not the whole's")
        elif entry.digest is None:
            self._work.note("files without a digest in the manifest were not hashed")
            return []
        else:
            algorithm, _, digits = entry.digest.partition(":")
            pieces = [Piece(run, 0, size, algorithm, digits, self._reads_of(size))]
        run.pieces_left = len(pieces)
        return pieces

    def _reads_of(self, size_bytes: int) -> int:
        """How many reads of one file at a time: more than one where files are few and huge."""
        if size_bytes < HUGE_BYTES:
            return 1
        return max(1, min(MOST_READS, self._most // max(1, self._work.expected.count)))

    def _take(self, answer: Answer) -> None:
        if isinstance(answer, int):
            self._done_bytes += answer
        elif isinstance(answer, Done):
            self._pending -= 1
            self._done_bytes += answer.untold_bytes
            self._settle(answer)
        else:
            self._pending -= 1
            self._done_bytes += answer.batch.total_bytes
            self._is_slow |= answer.seconds > SLOW_FILE_S * len(answer.files)
            self._settle_batch(answer)
        self._work.progress(self._level, self._done_bytes, self._total_bytes)

    def _settle(self, done: Done) -> None:
        run = done.piece.run
        settle(done)
        if run.pieces_left == 0:
            run.close()
            self._judge(run)

    def _settle_batch(self, done: BatchDone) -> None:
        for each in done.files:
            if isinstance(each, Refused):
                self._refuse(each)
            else:
                self._judge(each)

    def _refuse(self, file: Refused) -> None:
        self._work.bad(file.path, file.why, self._level, file.detail, file.index)

    def _judge(self, run: FileRun) -> None:
        """Say how a closed file went."""
        work = self._work
        if run.no_digest:
            work.note(f"files not hashed: {printable(run.no_digest)}")
        if run.is_known:
            self._finish(run)
            return
        if run.bad_ranges:
            self._blame(run)
        elif not run.cut and run.after != run.stamp:
            work.bad(run.path, "changed", self._level, "changed while it was read", run.index)
        if run.cut:
            return
        if run.bad_ranges or run.after != run.stamp:
            self.finished.add(run.index)
            work.files_hashed += 1
            return
        if work.journal is not None:
            work.journal.add(run.index, run.stamp)
        self._finish(run)

    def _blame(self, run: FileRun) -> None:
        whole = run.bad_ranges == [(0, run.stamp[1])]
        ranges = () if whole else tuple(sorted(run.bad_ranges))
        why: Why
        if run.error:
            why, detail = "unreadable", run.error
        elif run.ends_in_zeros:
            why, detail = "zero tail", "its digest is another one and its end is zeros"
        else:
            why, detail = "content", "same size, but its digest is another one"
        self._work.bad(run.path, why, self._level, detail, run.index, ranges)

    def _finish(self, run: FileRun) -> None:
        """The whole content was right."""
        work = self._work
        self.finished.add(run.index)
        work.files_hashed += 1
        work.findings.clear(run.index)
        if work.proof is not None:
            work.proof.prove(run.index, run.stamp, 4)
