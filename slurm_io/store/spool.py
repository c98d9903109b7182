"""All streams of one sampler: opened at the first row, rotated, capped; never raises out.

What cannot be written is dropped and counted with the reason, because a sampler that dies of a
full disk tells nothing, and one that fills a disk does harm.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slurm_io.errors import StoreError
from slurm_io.store.batch_template import BatchTemplate
from slurm_io.store.packed import PackedRows
from slurm_io.store.parts import Part, list_parts, next_number
from slurm_io.store.schema import Table
from slurm_io.store.streams import Row, StreamError, StreamWriter

MAX_BUFFERED_ROWS = 8192
"""A table with that many rows waiting is flushed at once, to bound memory."""

_CAP = "spool_max_bytes"
_BAD_ROW = "bad row"
_NS = 1_000_000_000


@dataclass(frozen=True)
class SpoolStats:
    """What was written and what was lost; the keys are those of ``self.json``.

    `drop_reason` names the most frequent reason: an errno name, ``spool_max_bytes`` or ``bad row``.
    """

    rows: dict[str, int]
    dropped_rows: int
    drop_reason: str | None
    bytes_written: int
    cells_refused: int
    drops: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


class SpoolWriter:
    """Writes the tables of one node folder.

    Args:
        spool: the node folder, which exists.
        tables: the tables rows may come for.
        flush_s: longest time a row waits for the kernel (checked by :meth:`flush_due`).
        rotate_bytes, rotate_s: a stream that is larger or older becomes ``<table>-NNNN.arrows``.
        max_bytes: cap over all table files of the folder, sealed ones and an earlier sampler's
            included; above it rows are dropped until sealing made room.
        samples: sample streams by table (:mod:`.sample_child`); made here where one is missing.
    """

    def __init__(
        self,
        spool: Path,
        tables: Iterable[Table],
        flush_s: float = 2.0,
        rotate_bytes: int = 64 * 1024 * 1024,
        rotate_s: float = 3600.0,
        max_bytes: int = 2 * 1024 * 1024 * 1024,
        samples: Mapping[str, bytes] | None = None,
    ) -> None:
        self.spool = spool
        self._tables = {table.name: table for table in tables}
        self._flush_ns = int(flush_s * _NS)
        self.rotations = 0
        self._rotate_bytes = rotate_bytes
        self._rotate_ns = int(rotate_s * _NS)
        self._max_bytes = max_bytes
        self._samples = samples or {}
        self._templates: dict[str, BatchTemplate] = {}
        self._writers: dict[str, StreamWriter] = {}
        self._opened_ns: dict[str, int] = {}
        self._rows: Counter[str] = Counter()
        self._drops: Counter[str] = Counter()
        self._cells_refused = 0
        self._bytes_written = 0
        self._flushed_ns: int | None = None
        self._used_bytes = self._measure()

    def append(self, table_name: str, row: Row) -> None:
        """Buffer one row; a row that cannot be kept is counted as dropped."""
        self.extend(table_name, (row,))

    def extend(self, table_name: str, rows: Sequence[Row]) -> None:
        """Buffer some rows, as many at a time as the bound on memory allows."""
        for start in range(0, len(rows), MAX_BUFFERED_ROWS):
            writer = self._writers.get(table_name) or self._open(table_name, len(rows) - start)
            if writer is None:
                return
            writer.extend(rows[start : start + MAX_BUFFERED_ROWS])
            if writer.rows_buffered >= MAX_BUFFERED_ROWS:
                self._flush(table_name)

    def extend_packed(self, table_name: str, blocks: Sequence[PackedRows]) -> None:
        """As :meth:`extend`, for rows that are packed already."""
        for block in blocks:
            writer = self._writers.get(table_name) or self._open(table_name, block.n_rows)
            if writer is None:
                continue
            writer.extend_packed(block)
            if writer.rows_buffered >= MAX_BUFFERED_ROWS:
                self._flush(table_name)

    def flush_due(self, mono_ns: int) -> bool:
        """Flush and rotate when `flush_s` has passed since the last time; whether it did."""
        if self._flushed_ns is not None and mono_ns - self._flushed_ns < self._flush_ns:
            return False
        self._flushed_ns = mono_ns
        self.flush_all()
        self._rotate_due(mono_ns)
        return True

    def flush_all(self) -> None:
        """Hand every buffered row to the kernel."""
        if self._used_bytes >= self._max_bytes:
            self._used_bytes = self._measure()
        for name in list(self._writers):
            self._flush(name)

    def close(self) -> None:
        """Flush and close every stream; the last one of each table stays ``<table>.arrows``."""
        self.flush_all()
        for name in list(self._writers):
            self._close(name)

    def stats(self) -> SpoolStats:
        """Totals so far, rows still buffered not included."""
        cells = self._cells_refused + sum(w.cells_refused for w in self._writers.values())
        drops = self._drops + Counter({_BAD_ROW: sum(map(_refused, self._writers.values()))})
        common = drops.most_common(1)
        return SpoolStats(
            rows=dict(sorted(self._rows.items())),
            dropped_rows=drops.total(),
            drop_reason=common[0][0] if common else None,
            bytes_written=self._bytes_written,
            cells_refused=cells,
            drops=dict(drops),
        )

    def _open(self, name: str, n_rows: int) -> StreamWriter | None:
        """None when it cannot be opened: the `n_rows` that came for it are counted as dropped."""
        table = self._tables.get(name)
        if table is None:
            self._drops[f"no table {name}"] += n_rows
            return None
        try:
            if name not in self._templates:
                self._templates[name] = BatchTemplate(table, self._samples.get(name))
            self._set_aside(name)
            path = self.spool / f"{name}.arrows"
            self._writers[name] = StreamWriter(path, table, self._templates[name])
        except StreamError as exc:
            self._drops[exc.reason] += n_rows
            return None
        except StoreError:
            self._drops["spool unreadable"] += n_rows
            return None
        return self._writers[name]

    def _flush(self, name: str) -> None:
        writer = self._writers[name]
        before = writer.rows_written
        if self._used_bytes >= self._max_bytes:
            self._drops[_CAP] += writer.discard()
            return
        try:
            written = writer.flush()
        except StreamError as exc:
            self._drops[exc.reason] += writer.discard()
            if exc.broken:
                self._close(name)
                self._set_aside_quietly(name)
            return
        self._bytes_written += written
        self._used_bytes += written
        if written:
            self._rows[name] += writer.rows_written - before

    def _rotate_due(self, mono_ns: int) -> None:
        for name, writer in list(self._writers.items()):
            opened_ns = self._opened_ns.setdefault(name, mono_ns)
            large = writer.bytes_written >= self._rotate_bytes
            if large or (writer.bytes_written and mono_ns - opened_ns >= self._rotate_ns):
                self._close(name)
                self._set_aside_quietly(name)
                self.rotations += 1
                self._used_bytes = self._measure()

    def _close(self, name: str) -> None:
        writer = self._writers.pop(name)
        self._opened_ns.pop(name, None)
        waiting = writer.rows_buffered
        try:
            writer.close()
        except StreamError as exc:
            self._drops[exc.reason] += waiting
        except OSError:  # close(2) itself failed: the rows are already with the kernel
            pass
        self._cells_refused += writer.cells_refused
        self._drops[_BAD_ROW] += writer.rows_refused

    def _set_aside(self, name: str) -> None:
        """Give ``<table>.arrows`` its number, whether ours or an earlier sampler's."""
        live = Part(name, None, "arrows")
        if not os.path.lexists(self.spool / live.file_name):
            return
        numbered = Part(name, next_number(list_parts(self.spool), name), "arrows")
        try:
            (self.spool / live.file_name).rename(self.spool / numbered.file_name)
        except OSError as exc:
            raise StreamError(self.spool / live.file_name, exc) from exc

    def _set_aside_quietly(self, name: str) -> None:
        # A rename that fails is tried again, and counted, when the table is next opened.
        with suppress(StoreError):
            self._set_aside(name)

    def _measure(self) -> int:
        """Bytes of all table files; 0 when the folder cannot be listed (writing will tell)."""
        try:
            parts = list_parts(self.spool)
        except StoreError:
            return 0
        total = 0
        for part in parts:
            with suppress(OSError):  # sealed and removed meanwhile
                total += os.lstat(self.spool / part.file_name).st_size
        return total


def _refused(writer: StreamWriter) -> int:
    return writer.rows_refused
