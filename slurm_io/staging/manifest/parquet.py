"""Manifests as Parquet, for datasets of more than 100,000 files.

One row a file in ascending order of paths; `path` is a binary column of the exact bytes; the
header is the JSON value of ``slurm_io.manifest`` in the schema's metadata. Columns are plain
(never dictionary or delta encoded), so that a small file cannot stand for an endless one.
A Parquet file ends in its footer: truncation shows by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.content_id import ContentId
from slurm_io.staging.manifest.jsonl import open_regular, parse_line
from slurm_io.staging.manifest.model import FileEntry, Header, Manifest
from slurm_io.staging.manifest.parquet_footer import HEADER_KEY
from slurm_io.staging.manifest.paths import Ascending, decode_path, printable
from slurm_io.staging.manifest.rows import (
    MAX_LINE_BYTES,
    Totals,
    canonical_json,
    check_chunks,
    entry_of,
    entry_row,
    header_of,
    header_row,
    is_plain,
)

SCHEMA = pa.schema(
    [
        pa.field("path", pa.binary(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("digest", pa.string()),
        pa.field("ends", pa.string()),
        pa.field("chunks", pa.list_(pa.string())),
        pa.field("etag", pa.string()),
        pa.field("version_id", pa.string()),
        pa.field("role", pa.string()),
        pa.field("digests", pa.list_(pa.string())),
    ]
)
GROUP_ROWS = 65_536
GROUP_BYTES = 32 << 20
MAX_GROUP_BYTES = 512 << 20  # of any file that is read
BATCH_ROWS = 4096
_ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED"}


def write_parquet(file: IO[bytes], header: Header, files: Iterable[FileEntry]) -> None:
    """Write a manifest whose files come in ascending order of paths. Raises ManifestError."""
    text = canonical_json(header_row(header)).encode()
    if len(text) > MAX_LINE_BYTES:
        raise ManifestError(f"a header of {len(text)} bytes: at most {MAX_LINE_BYTES}")
    header_of(parse_line(text))  # what cannot be read back must not be written
    schema = SCHEMA.with_metadata({HEADER_KEY: text})
    ident, order, totals = ContentId(), Ascending(), Totals()
    with pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=False) as writer:
        rows: list[dict[str, Any]] = []
        held_bytes = 0
        for entry in files:
            raw = order.add(entry.path)
            ident.add(raw, entry.size_bytes, entry.digest)
            totals.add(entry.size_bytes)
            check_chunks(header, entry)
            row = entry_row(entry)
            if not is_plain(row):
                entry_of(row)
            rows.append({**row, "path": raw})
            held_bytes += 300 + len(raw) + 140 * len(entry.chunks)
            if len(rows) >= GROUP_ROWS or held_bytes > GROUP_BYTES:
                writer.write_table(pa.Table.from_pylist(rows, schema))
                rows, held_bytes = [], 0
        if rows:
            writer.write_table(pa.Table.from_pylist(rows, schema))
    totals.check(header)
    if ident.value() != header.content_id:
        raise ManifestError(f"content id {header.content_id} is not that of the files")


def read_manifest(path: str, *, check_id: bool = True) -> Manifest:
    """A whole manifest of the Parquet form, checked as the JSON Lines form is.

    Raises ManifestError naming file and row.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        try:
            with pq.ParquetFile(file, pre_buffer=False) as parquet:
                header = _header(parquet)
                files = list(_entries(parquet, header, check_id))
        except ManifestError as error:
            raise ManifestError(f"{printable(path)}: {error}") from None
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            raise ManifestError(
                f"{printable(path)}: is a truncated or damaged Parquet file "
                f"({' '.join(str(error).split())!a:.160}); copy it again"
            ) from error
    return Manifest(header, files)


def _header(parquet: pq.ParquetFile) -> Header:
    text = (parquet.schema_arrow.metadata or {}).get(HEADER_KEY)
    if text is None or len(text) > MAX_LINE_BYTES:
        raise ManifestError("is a Parquet file, but no manifest of slurm_io")
    if not parquet.schema_arrow.equals(SCHEMA):
        raise ManifestError("its columns are not those of a manifest; build it again")
    return header_of(parse_line(text))


def _entries(parquet: pq.ParquetFile, header: Header, check_id: bool) -> Iterator[FileEntry]:
    if check_id and parquet.metadata.num_rows != header.file_count:
        raise ManifestError(
            f"its header says file_count {header.file_count}, it has {parquet.metadata.num_rows}"
        )
    _check_groups(parquet.metadata)
    ident, order, totals = ContentId(), Ascending(), Totals()
    for row in _rows(parquet):
        try:
            entry = entry_of(row)
            ident.add(order.add(entry.path), entry.size_bytes, entry.digest)
            check_chunks(header, entry)
            totals.add(entry.size_bytes)
        except ManifestError as error:
            raise ManifestError(f"row {totals.file_count + 1}: {error}") from None
        yield entry
    if not check_id:
        return
    totals.check(header)
    if ident.value() != header.content_id:
        raise ManifestError(
            f"its files make content id {ident.value()}, its header says {header.content_id}: "
            "an entry was altered; get the manifest again"
        )


def _check_groups(metadata: Any) -> None:
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        size = 0
        for index in range(group.num_columns):
            column = group.column(index)
            size += column.total_uncompressed_size
            if not set(column.encodings) <= _ENCODINGS:
                raise ManifestError(
                    f"column {column.path_in_schema} is encoded as {column.encodings}: "
                    "only plain columns are read"
                )
        if size > MAX_GROUP_BYTES:
            raise ManifestError(f"a row group of {size} bytes: at most {MAX_GROUP_BYTES}")


def _rows(parquet: pq.ParquetFile) -> Iterator[dict[str, Any]]:
    """Rows as JSON objects, what is null left out."""
    for batch in parquet.iter_batches(batch_size=BATCH_ROWS, use_threads=False):
        for full in batch.to_pylist():
            row = {key: value for key, value in full.items() if value is not None}
            row["path"] = decode_path(row.get("path", b""))
            yield row
