"""Reads one sealed part without believing it: size, rows, types and unpacked bytes are limited."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slurm_io.errors import StoreError
from slurm_io.store.conform import check_marks, conform, empty_table
from slurm_io.store.files import open_regular
from slurm_io.store.schema import Table
from slurm_io.store.thinning import thinner

MAX_PARQUET_BYTES = 1024 * 1024 * 1024
MAX_ROWS = 64 * 1024 * 1024
MAX_LOADED_BYTES = 4 * 1024 * 1024 * 1024
DAMAGE_KEY = b"slurm_io.damage"
_BATCH_ROWS = 65536


def read_part(path: Path, table: Table, every: int = 1) -> tuple[pa.Table, list[dict[str, Any]]]:
    """All rows of a sealed part in today's schema, and the damage found when it was sealed.

    `every` keeps the rows of each so many-th second only (:mod:`slurm_io.store.thinning`).
    """
    with opened(path, MAX_PARQUET_BYTES) as raw:
        metadata = _checked(raw, path, table)
        damage = noted_damage(metadata.metadata)
        if metadata.num_rows == 0:
            return empty_table(table), damage
        with open_groups(raw, metadata, table) as file:
            rows = load(file, columns_of(file, table), path, every=every)
        return conform(rows, table, str(path)), damage


def stream_part(path: Path, table: Table) -> Iterator[pa.Table]:
    """As :func:`read_part` a batch at a time, text as codes.

    A StoreError too when the part has columns this version does not know: they would be lost.
    """
    with opened(path, MAX_PARQUET_BYTES) as raw:
        metadata = _checked(raw, path, table)
        if metadata.num_rows == 0:
            return
        with open_groups(raw, metadata, table) as file:
            unknown = set(file.schema_arrow.names) - set(table.column_names())
            if unknown:
                raise StoreError(f"{path} has columns of a newer slurm_io: {min(unknown)}")
            for batch in batches(file, columns_of(file, table)):
                yield conform(pa.Table.from_batches([batch]), table, str(path), keep_codes=True)


def footer_damage(path: Path) -> list[dict[str, Any]]:
    """The damage noted in a sealed part, read from its footer alone."""
    with opened(path, MAX_PARQUET_BYTES) as raw:
        return noted_damage(pq.read_metadata(raw).metadata)


@contextmanager
def opened(path: Path, max_bytes: int) -> Iterator[Any]:
    """The file, open; what Arrow says of a damaged one becomes a StoreError that names it."""
    fd, _ = open_regular(path, max_bytes)
    with open(fd, "rb") as raw:
        try:
            yield raw
        except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as exc:
            reason = str(exc).splitlines()[0][:200] if str(exc) else type(exc).__name__
            raise StoreError(f"{path} is no readable Parquet file: {reason}") from exc


def open_groups(raw: Any, metadata: pq.FileMetaData, table: Table) -> pq.ParquetFile:
    """The file behind `raw` for reading columns of `table`.

    Text stays as codes until its unpacked size is known: a small file can hold a large string a
    million times.
    """
    there = {metadata.schema.column(index).path for index in range(metadata.num_columns)}
    texts = [c.name for c in table.columns if c.type == "string" and c.name in there]
    return pq.ParquetFile(raw, metadata=metadata, read_dictionary=texts, pre_buffer=False)


def columns_of(file: pq.ParquetFile, table: Table) -> list[str]:
    """Names of the columns of `table` that `file` has."""
    known = set(table.column_names())
    return [name for name in file.schema_arrow.names if name in known]


def batches(
    file: pq.ParquetFile, names: list[str], groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows of all row groups, or of `groups`, checked to be what Arrow says they are."""
    chosen = None if groups is None else list(groups)
    for batch in file.iter_batches(
        batch_size=_BATCH_ROWS, row_groups=chosen, columns=names, use_threads=False
    ):
        batch.validate(full=True)
        yield batch


def load(
    file: pq.ParquetFile,
    names: list[str],
    path: Path,
    groups: Sequence[int] | None = None,
    every: int = 1,
) -> pa.Table:
    """Thinned rows in memory; StoreError when they are absurdly large."""
    thinned = thinner(every)
    kept: list[pa.RecordBatch] = []
    loaded_bytes = 0
    for batch in batches(file, names, groups):
        kept.append(thinned(batch))
        loaded_bytes += kept[-1].nbytes
        if loaded_bytes > MAX_LOADED_BYTES:
            raise StoreError(f"{path} unpacks to more than {MAX_LOADED_BYTES} bytes")
    return pa.Table.from_batches(kept)


def _checked(raw: Any, path: Path, table: Table) -> pq.FileMetaData:
    metadata = pq.read_metadata(raw)
    if metadata.num_rows > MAX_ROWS:
        raise StoreError(f"{path} claims {metadata.num_rows} rows, over {MAX_ROWS}")
    check_marks(metadata.metadata, table, str(path))
    return metadata


def noted_damage(marks: dict[bytes, bytes] | None) -> list[dict[str, Any]]:
    """The damage noted in a part's footer; nonsense there counts as none."""
    try:
        noted = json.loads((marks or {}).get(DAMAGE_KEY, b"[]"))
    except ValueError:
        return []
    return [entry for entry in noted if isinstance(entry, dict)] if isinstance(noted, list) else []
