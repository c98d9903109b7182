"""What one worker thread hashes at once: a piece of a large file, or a batch of small files."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from slurm_io.errors import ManifestError
from slurm_io.staging.beneath import Folder, NotAFile
from slurm_io.staging.manifest.algorithms import Hasher, maker_of
from slurm_io.staging.manifest.paths import encode_path
from slurm_io.staging.verify.journal import Journal
from slurm_io.staging.verify.l1 import stamp_of
from slurm_io.staging.verify.model import Deadline, Why
from slurm_io.staging.verify.reading import (
    ALIGN_BYTES,
    Reader,
    open_direct,
    read_ahead,
    read_in_turn,
    set_direct,
)
from slurm_io.staging.verify.table import Row, Stamp

TOLD_BYTES = 256 << 20
"""Of a large piece so much is read between two signs of life."""
Open = Callable[[bytes], tuple[int, os.stat_result]]


class FileRun:
    """One file under way, open; `stamp` is what it was then.

    `pieces_left` reach 0 when all its pieces were looked at or given up. `bad_ranges`: (offset,
    length) of those that are not right. `error`: why one could not be read, `no_digest`: why none
    could be computed. `cut`: not all was looked at. `is_known`: an earlier verify proved this very
    state. `after` is its stamp when all was read, None before.
    """

    def __init__(self, index: int, row: Row, path: bytes, descriptor: int, stamp: Stamp) -> None:
        self.index = index
        self.row = row
        self.path = path
        self.descriptor = descriptor
        self.stamp = stamp
        self.pieces_left = 1
        self.bad_ranges: list[tuple[int, int]] = []
        self.error = ""
        self.no_digest = ""
        self.cut = False
        self.is_known = False
        self.ends_in_zeros = False
        self.after: Stamp | None = None

    def close(self) -> None:
        """Look at it once more, and let go of it."""
        try:
            self.after = stamp_of(os.fstat(self.descriptor))
            self.ends_in_zeros = bool(self.bad_ranges) and self._ends_in_zeros()
        finally:
            os.close(self.descriptor)

    def _ends_in_zeros(self) -> bool:
        size = self.stamp[1]
        length = min(size, 4096)
        set_direct(self.descriptor, False)
        try:
            tail = os.pread(self.descriptor, length, size - length)
        except OSError:
            return False
        return bool(tail) and not any(tail)


class Refused:
    """A file that could not be opened as it should be."""

    def __init__(self, index: int, path: bytes, why: Why, detail: str) -> None:
        self.index = index
        self.path = path
        self.why = why
        self.detail = detail


class Piece(NamedTuple):
    """A part of a large file, or all of it. `ahead`: by how many reads at a time."""

    run: FileRun
    start: int
    length: int
    algorithm: str
    digits: str
    ahead: int = 1


class Done(NamedTuple):
    """How a piece went: `right` None = given up, because the time was over or (`error`) because
    nothing can make such a digest. `untold_bytes`: of its length, what no sign of life told."""

    piece: Piece
    right: bool | None
    untold_bytes: int
    error: str = ""


class Batch(NamedTuple):
    """Small files with a digest in the manifest, for one worker from opening to closing."""

    rows: Sequence[tuple[int, Row]]
    total_bytes: int


class BatchDone(NamedTuple):
    """What became of a batch's files; those that the time did not suffice for are missing."""

    batch: Batch
    files: list[FileRun | Refused]
    seconds: float


Answer = Done | BatchDone | int
"""An int is a sign of life: so many more bytes of a piece were read."""


class Worker:
    """Hashes pieces and batches in one thread, with buffers and a way into the tree of its own."""

    def __init__(
        self,
        root_fd: int,
        block_bytes: int,
        deadline: Deadline,
        journal: Journal | None,
        tell: Callable[[Answer], object],
    ) -> None:
        self._tree = Folder(os.dup(root_fd))
        self._deadline = deadline
        self._journal = journal
        self._tell = tell
        self._block_bytes = block_bytes
        self._readers = [Reader(block_bytes)]
        self._makers: dict[tuple[str, bool], Callable[[], Hasher]] = {}
        self._told_bytes = 0

    @property
    def bytes_read(self) -> int:
        """Through all buffers."""
        return sum(reader.bytes_read for reader in self._readers)

    @property
    def bytes_from_cache(self) -> int:
        """Of those, how many came from memory."""
        return sum(reader.bytes_from_cache for reader in self._readers)

    def close(self) -> None:
        """Give buffers and descriptors back."""
        for reader in self._readers:
            reader.close()
        self._tree.close()

    def work(self, what: Piece | Batch) -> None:
        """Hash, and tell how it went."""
        if isinstance(what, Piece):
            self._tell(self._piece(what))
        else:
            start_s = time.monotonic()
            files = self._batch(what)
            self._tell(BatchDone(what, files, time.monotonic() - start_s))

    def _batch(self, batch: Batch) -> list[FileRun | Refused]:
        files: list[FileRun | Refused] = []
        for index, row in batch.rows:
            if self._deadline.over():
                break
            run = begin(self._open, index, row)
            files.append(run)
            if isinstance(run, FileRun):
                self._small_file(run)
        return files

    def _open(self, path: bytes) -> tuple[int, os.stat_result]:
        folder, _, name = path.rpartition(b"/")
        return open_direct(self._tree.folder_fd(folder), name)

    def _small_file(self, run: FileRun) -> None:
        try:
            if self._journal is not None and self._journal.has(run.index, run.stamp):
                run.is_known = True
                return
            assert run.row.entry.digest is not None
            algorithm, _, digits = run.row.entry.digest.partition(":")
            settle(self._piece(Piece(run, 0, run.stamp[1], algorithm, digits)))
        finally:
            run.close()

    def _piece(self, piece: Piece) -> Done:
        self._told_bytes = 0
        right, error = None, ""
        try:
            right = self._is_right(piece)
        except ManifestError as caught:
            error = str(caught)
        except OSError as caught:
            right, error = False, caught.strerror or str(caught)
        return Done(piece, right, piece.length - self._told_bytes, error)

    def _is_right(self, piece: Piece) -> bool | None:
        kind = piece.algorithm, piece.ahead > 1
        if kind not in self._makers:
            self._makers[kind] = maker_of(*kind)
        hasher = self._makers[kind]()
        done = 0
        with contextlib.closing(self._blocks(piece)) as blocks:
            for block in blocks:
                hasher.update(block)
                done += len(block)
                if self._deadline.over():
                    break
                if done - self._told_bytes >= TOLD_BYTES:
                    self._tell(done - self._told_bytes)
                    self._told_bytes = done
        if done < piece.length:
            return None if self._deadline.over() else False
        return hasher.hexdigest() == piece.digits

    def _blocks(self, piece: Piece) -> Generator[memoryview, None, None]:
        descriptor = piece.run.descriptor
        if piece.ahead > 1 and piece.start % ALIGN_BYTES == 0:
            while len(self._readers) <= piece.ahead:
                self._readers.append(Reader(self._block_bytes))
            return read_ahead(self._readers, descriptor, piece.start, piece.length)
        return read_in_turn(self._readers[0], descriptor, piece.start, piece.length)


def begin(open_file: Open, index: int, row: Row) -> FileRun | Refused:
    """Open a file of the right size, or say what is wrong with it."""
    path = encode_path(row.entry.path)
    try:
        descriptor, found = open_file(path)
    except NotAFile as error:
        return Refused(index, path, "not a file", f"is {error}")
    except FileNotFoundError:
        return Refused(index, path, "missing", "")
    except OSError as error:
        return Refused(index, path, "unreadable", error.strerror or str(error))
    wanted = row.entry.size_bytes
    if wanted in (None, found.st_size):
        return FileRun(index, row, path, descriptor, stamp_of(found))
    os.close(descriptor)
    why: Why = "truncated" if found.st_size < (wanted or 0) else "longer"
    return Refused(index, path, why, f"{found.st_size} bytes instead of {wanted}")


def settle(done: Done) -> None:
    """Enter in a file's run how one of its pieces went."""
    run = done.piece.run
    run.pieces_left -= 1
    if done.right is None:
        run.cut = True
        run.no_digest = run.no_digest or done.error
    elif not done.right:
        run.bad_ranges.append((done.piece.start, done.piece.length))
        run.error = run.error or done.error
