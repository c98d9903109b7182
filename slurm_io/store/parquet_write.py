"""Writes one sealed part: zstd, each kind of column in the encoding that took least room.

Measured on a day-like table (bench/store_cost.py): whole numbers as DELTA_BINARY_PACKED, text and
flags by dictionary, rates (float32) as BYTE_STREAM_SPLIT.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slurm_io.errors import StoreError
from slurm_io.store.files import fsync_folder, why
from slurm_io.store.parquet_part import DAMAGE_KEY
from slurm_io.store.schema import Table
from slurm_io.store.table_files import sorted_rows

ENCODINGS = {
    "int64": "DELTA_BINARY_PACKED",
    "int32": "DELTA_BINARY_PACKED",
    "float64": "BYTE_STREAM_SPLIT",
    "float32": "BYTE_STREAM_SPLIT",
}
ZSTD_LEVEL = 6
_ROW_GROUP_ROWS = 1024 * 1024


def write_part(
    temporary: Path, target: Path, rows: pa.Table, table: Table, damage: list[dict[str, Any]]
) -> None:
    """Write `rows` sorted to `temporary`, make them durable, rename to `target`.

    StoreError when the file system refuses; `temporary` is then gone.
    """
    rows = sorted_rows(rows, table)
    marks = dict(rows.schema.metadata or {})
    if damage:
        marks[DAMAGE_KEY] = json.dumps(damage).encode()
    try:
        _write(temporary, rows, table, marks)
        temporary.rename(target)
        fsync_folder(target.parent)
    except OSError as exc:
        with suppress(OSError):
            temporary.unlink()
        raise StoreError(f"cannot write {target}: {why(exc)}") from exc


def _write(path: Path, rows: pa.Table, table: Table, marks: dict[bytes, bytes]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:
        with pq.ParquetWriter(
            file,
            rows.schema,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=[c.name for c in table.columns if c.type == "string"],
            column_encoding={
                c.name: ENCODINGS[c.type] for c in table.columns if c.type in ENCODINGS
            },
            write_statistics=["ts_ns"],
            store_schema=False,  # costs more than a short part's rows; Parquet's own types do
        ) as writer:
            writer.write_table(rows, row_group_size=_ROW_GROUP_ROWS)
            writer.add_key_value_metadata(marks)
        file.flush()
        os.fsync(file.fileno())
