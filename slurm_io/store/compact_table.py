"""Writes one compacted table: node after node, a batch at a time, each node in its own row groups.

Memory is one row group's worth, whatever the job's length and number of nodes.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slurm_io.errors import StoreError
from slurm_io.store.arrow_schema import coded_schema
from slurm_io.store.compacted_tables import NODE_COLUMN, NODES_KEY
from slurm_io.store.parquet_write import ENCODINGS, ZSTD_LEVEL
from slurm_io.store.schema import Table

GROUP_ROWS = 1024 * 1024
GROUP_BYTES = 64 * 1024 * 1024
MAX_GROUPS = 200_000  # beyond it the footer alone would be hundreds of megabytes
_NODE_TYPE = pa.dictionary(pa.int32(), pa.string())


class TableWriter:
    """A compacted table on its way to disk; `rows` counts what each node put in."""

    def __init__(self, path: Path, table: Table) -> None:
        """Create `path`, which must not exist. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self.rows: dict[str, int] = {}
        self._index: dict[str, dict[str, Any]] = {}
        self._groups = 0
        self._path = path
        self._file = open(os.open(path, flags, 0o600), "wb")  # noqa: SIM115 - until close()
        plain = coded_schema(table)
        node = pa.field(NODE_COLUMN, _NODE_TYPE, nullable=False)
        self._schema = plain.append(node)
        texts = [column.name for column in table.columns if column.type == "string"]
        self._writer = pq.ParquetWriter(
            self._file,
            self._schema,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=[*texts, NODE_COLUMN],
            column_encoding={
                c.name: ENCODINGS[c.type] for c in table.columns if c.type in ENCODINGS
            },
            write_statistics=["ts_ns", NODE_COLUMN],
            store_schema=False,
        )

    def add(self, node: str, pieces: Iterable[pa.Table], damage: list[dict[str, Any]]) -> None:
        """All rows of one node, in the order they come. Raises StoreError, OSError."""
        first = self._groups
        held: list[pa.Table] = []
        self.rows[node] = 0
        for piece in pieces:
            held.append(piece)
            if _is_enough(held):
                self._write(node, held)
                held = []
        self._write(node, held)
        self._index[node] = {"groups": [first, self._groups - first]}
        if damage:
            self._index[node]["damage"] = damage

    def _write(self, node: str, held: list[pa.Table]) -> None:
        rows = pa.concat_tables(held) if held else None
        if rows is None or rows.num_rows == 0:
            return
        if self._groups >= MAX_GROUPS:
            raise StoreError(f"{self._path}: too many nodes and rows for one file")
        codes = pa.DictionaryArray.from_arrays(
            pa.repeat(pa.scalar(0, pa.int32()), rows.num_rows), pa.array([node])
        )
        whole = rows.unify_dictionaries().append_column(self._schema.field(NODE_COLUMN), codes)
        self._writer.write_table(whole.cast(self._schema), row_group_size=rows.num_rows)
        self._groups += 1
        self.rows[node] += rows.num_rows

    def close(self) -> None:
        """Write the footer and make everything durable. Raises OSError."""
        index = json.dumps(self._index, separators=(",", ":")).encode()
        self._writer.add_key_value_metadata({NODES_KEY: index, **(self._schema.metadata or {})})
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def drop(self) -> None:
        """Give up; the file that is left is worth nothing."""
        self._writer.is_open = False  # else it would write a footer when it is collected
        with contextlib.suppress(OSError):
            self._file.close()


def _is_enough(held: list[pa.Table]) -> bool:
    rows = sum(int(piece.num_rows) for piece in held)
    return rows >= GROUP_ROWS or sum(int(piece.nbytes) for piece in held) >= GROUP_BYTES
