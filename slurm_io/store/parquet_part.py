"""Reads one sealed part without believing it: size, rows, types and unpacked bytes are limited."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slurm_io.errors import StoreError
from slurm_io.store.conform import check_marks, conform, empty_table
from slurm_io.store.files import open_regular
from slurm_io.store.schema import Table

MAX_PARQUET_BYTES = 1024 * 1024 * 1024
MAX_ROWS = 64 * 1024 * 1024
MAX_LOADED_BYTES = 4 * 1024 * 1024 * 1024
DAMAGE_KEY = b"slurm_io.damage"
_BATCH_ROWS = 65536


def read_part(path: Path, table: Table) -> tuple[pa.Table, list[dict[str, Any]]]:
    """All rows of a sealed part in today's schema, and the damage found when it was sealed."""
    fd, _ = open_regular(path, MAX_PARQUET_BYTES)
    with open(fd, "rb") as raw:
        try:
            return _read(raw, path, table)
        except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as exc:
            reason = str(exc).splitlines()[0][:200] if str(exc) else type(exc).__name__
            raise StoreError(f"{path} is no readable Parquet file: {reason}") from exc


def footer_damage(path: Path) -> list[dict[str, Any]]:
    """The damage noted in a sealed part, read from its footer alone."""
    fd, _ = open_regular(path, MAX_PARQUET_BYTES)
    with open(fd, "rb") as raw:
        try:
            return _damage(pq.read_metadata(raw).metadata)
        except (pa.ArrowException, OSError, ValueError) as exc:
            raise StoreError(f"{path} is no readable Parquet file") from exc


def _read(raw: Any, path: Path, table: Table) -> tuple[pa.Table, list[dict[str, Any]]]:
    metadata = pq.read_metadata(raw)
    if metadata.num_rows > MAX_ROWS:
        raise StoreError(f"{path} claims {metadata.num_rows} rows, over {MAX_ROWS}")
    check_marks(metadata.metadata, table, str(path))
    damage = _damage(metadata.metadata)
    if metadata.num_rows == 0:
        return empty_table(table), damage
    there = {metadata.schema.column(index).path for index in range(metadata.num_columns)}
    # Text stays as codes until its unpacked size is known: a small file can hold a large string
    # a million times.
    texts = [c.name for c in table.columns if c.type == "string" and c.name in there]
    with pq.ParquetFile(raw, metadata=metadata, read_dictionary=texts, pre_buffer=False) as file:
        known = set(table.column_names())
        names = [name for name in file.schema_arrow.names if name in known]
        rows = _load(file, names, path)
    return conform(rows, table, str(path)), damage


def _load(file: pq.ParquetFile, names: list[str], path: Path) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    loaded_bytes = 0
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=names, use_threads=False):
        batch.validate(full=True)
        loaded_bytes += batch.nbytes
        if loaded_bytes > MAX_LOADED_BYTES:
            raise StoreError(f"{path} unpacks to more than {MAX_LOADED_BYTES} bytes")
        batches.append(batch)
    return pa.Table.from_batches(batches)


def _damage(marks: dict[bytes, bytes] | None) -> list[dict[str, Any]]:
    """The damage noted in a part's footer; nonsense there counts as none."""
    try:
        noted = json.loads((marks or {}).get(DAMAGE_KEY, b"[]"))
    except ValueError:
        return []
    return [entry for entry in noted if isinstance(entry, dict)] if isinstance(noted, list) else []
