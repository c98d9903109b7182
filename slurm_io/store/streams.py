"""The streams of a running sampler: one Arrow IPC stream a table, one batch a flush.

nanoarrow only, never pyarrow. Every batch reaches the kernel in one piece before
:meth:`StreamWriter.flush` returns, so that kill -9 costs the rows not yet flushed and nothing else.
A write that fails halfway is cut back to the last whole batch. The writer holds a lock on its
file: sealing leaves a stream alone while its writer lives.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from slurm_io.errors import StoreError
from slurm_io.store.batch_template import END_OF_STREAM, BatchTemplate
from slurm_io.store.encode import CellError, Encoded, encoder
from slurm_io.store.files import why
from slurm_io.store.packed import PackedRows, encoded
from slurm_io.store.schema import Column, Table

Row = tuple[object, ...]


class StreamError(StoreError):
    """A batch could not be written; `reason` is the errno's name, e.g. ``ENOSPC``.

    `broken` says that the file could not be cut back to its last whole batch: go on in a new one.
    """

    def __init__(self, path: Path, exc: OSError, broken: bool = False) -> None:
        super().__init__(f"cannot write {path}: {why(exc)}; make room or move the spool")
        self.reason = errno.errorcode.get(exc.errno or 0, "EIO")
        self.broken = broken


class StreamWriter:
    """Appends rows of one table to one new file.

    Args:
        path: the file; it must not exist (StreamError otherwise).
        table: whose rows these are.
        template: the table's batch template when the caller keeps one; costs 2 ms to make.
    """

    def __init__(self, path: Path, table: Table, template: BatchTemplate | None = None) -> None:
        self.path = path
        self.table = table
        self.bytes_written = 0
        self.rows_written = 0
        self.cells_refused = 0
        self.rows_refused = 0
        self._template = template or BatchTemplate(table)
        self._encoders = [encoder(c.type, c.nullable) for c in table.columns]
        self._n_columns = len(table.columns)
        self._rows: list[Row] = []
        self._packed: list[PackedRows] = []
        self._n_packed = 0
        self._fd = self._open()

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(self.path, flags, 0o600)
        except OSError as exc:
            raise StreamError(self.path, exc) from exc
        try:
            self._lock(fd)
        except OSError as exc:
            os.close(fd)
            raise StreamError(self.path, exc) from exc
        return fd

    def _lock(self, fd: int) -> None:
        """Keep sealing off; OSError when it had the file renamed before we held the lock."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks: whoever seals there stops us first
            return
        if self.path.stat().st_ino != os.fstat(fd).st_ino:
            raise BlockingIOError(errno.EAGAIN, "the stream was being sealed")

    @property
    def rows_buffered(self) -> int:
        """Rows appended and not yet with the kernel."""
        return len(self._rows) + self._n_packed

    def append(self, row: Row) -> None:
        """Buffer one row, columns in schema order; a row of another length is refused, counted."""
        self.extend((row,))

    def extend(self, rows: Sequence[Row]) -> None:
        """As :meth:`append`, for some rows."""
        n_columns = self._n_columns
        fitting = [row for row in rows if len(row) == n_columns]
        self.rows_refused += len(rows) - len(fitting)
        self._rows += fitting

    def extend_packed(self, block: PackedRows) -> None:
        """As :meth:`extend`, for rows that are packed already, values within their types."""
        if len(block.columns) == self._n_columns:
            self._packed.append(block)
            self._n_packed += block.n_rows
        else:
            self.rows_refused += block.n_rows

    def flush(self) -> int:
        """Write the buffered rows as one batch, packed ones as one more; bytes written, 0 when
        there was nothing to write.

        Raises StreamError on a full or failing file system. The rows then stay buffered: try
        again later or :meth:`discard` them.
        """
        written = 0
        if self._rows and (message := self._encode()):
            written += self._write_batch(message)
            self.rows_written += len(self._rows)
            self._rows.clear()
        if self._packed:
            n_rows, columns = encoded([c.type for c in self.table.columns], self._packed)
            written += self._write_batch(self._template.message(n_rows, columns))
            self.rows_written += n_rows
            self._forget_packed()
        return written

    def discard(self) -> int:
        """Drop the buffered rows; how many there were."""
        dropped = self.rows_buffered
        self._rows.clear()
        self._forget_packed()
        return dropped

    def close(self) -> None:
        """Flush, mark the end of the stream, give the file back. StreamError as :meth:`flush`."""
        if self._fd < 0:
            return
        try:
            self.flush()
            if self.bytes_written:
                with suppress(StreamError):  # readable without the mark as well
                    self._write(END_OF_STREAM)
        finally:
            os.close(self._fd)
            self._fd = -1

    def _encode(self) -> bytes:
        try:
            columns = self._encoded_columns()
        except CellError:
            self._refuse_bad_cells()
            if not self._rows:
                return b""
            columns = self._encoded_columns()
        return self._template.message(len(self._rows), columns)

    def _encoded_columns(self) -> list[Encoded]:
        rows = self._rows
        n_rows = len(rows)
        columns = zip(*rows, strict=True)
        return [
            encode(values, n_rows) for encode, values in zip(self._encoders, columns, strict=True)
        ]

    def _refuse_bad_cells(self) -> None:
        """Rare: a value does not fit. Null it where null is allowed, else drop its row."""
        columns = self.table.columns
        kept: list[Row] = []
        for row in self._rows:
            cells = tuple(map(_cell, columns, row))
            self.cells_refused += sum(
                cell is None and value is not None for cell, value in zip(cells, row, strict=True)
            )
            if all(map(_is_allowed, columns, cells)):
                kept.append(cells)
        self.rows_refused += len(self._rows) - len(kept)
        self._rows = kept

    def _forget_packed(self) -> None:
        self._packed.clear()
        self._n_packed = 0

    def _write_batch(self, message: bytes) -> int:
        if self.bytes_written == 0:
            message = self._template.schema_message + message
        self._write(message)
        return len(message)

    def _write(self, message: bytes) -> None:
        start = self.bytes_written
        done = 0
        try:
            while done < len(message):
                done += os.pwrite(self._fd, message[done:] if done else message, start + done)
        except OSError as exc:
            raise StreamError(self.path, exc, broken=not self._cut_back(start)) from exc
        self.bytes_written = start + done

    def _cut_back(self, size: int) -> bool:
        try:
            os.ftruncate(self._fd, size)
        except OSError:
            return False
        return True


def _is_allowed(column: Column, cell: object) -> bool:
    return cell is not None or column.nullable


def _cell(column: Column, value: Any) -> Any:
    """The value when it fits the column, an honest conversion of it, or None."""
    if column.type in ("int32", "int64") and isinstance(value, float) and value.is_integer():
        value = int(value)
    if column.type == "float32" and isinstance(value, float) and abs(value) > 3.4e38:
        value = float("inf") if value > 0 else float("-inf")
    try:
        encoder(column.type)((value,), 1)
    except CellError:
        return None
    return value
