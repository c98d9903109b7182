"""Brings rows read from a file to the schema of today: right columns, right order, right types.

A store may be older (columns missing: null), newer in small ways (columns we do not know: dropped),
or hostile (wrong types, null clocks: StoreError that names file and column).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from slurm_io.errors import StoreError
from slurm_io.store.arrow_schema import SCHEMA_KEY, TABLE_KEY, coded_schema, pyarrow_schema
from slurm_io.store.schema import CLOCKS, SCHEMA_VERSION, Table

MAX_TEXT_BYTES = 1024 * 1024 * 1024
_CLOCK_NAMES = frozenset(column.name for column in CLOCKS)


def check_marks(metadata: dict[bytes, bytes] | None, table: Table, file: str) -> None:
    """StoreError when a file says it holds another table or a newer schema than we know."""
    marks = metadata or {}
    name = marks.get(TABLE_KEY, table.name.encode())
    if name != table.name.encode():
        raise StoreError(f"{file} holds table {name!r}, not {table.name}: it was renamed")
    version = marks.get(SCHEMA_KEY, b"1")
    if not version.isdigit() or len(version) > 9:
        raise StoreError(f"{file} has an unreadable schema version {version[:20]!r}")
    if int(version) > SCHEMA_VERSION:
        raise StoreError(
            f"{file} has schema version {int(version)}, this slurm_io knows {SCHEMA_VERSION}: "
            "read it with a newer slurm_io"
        )


def conform(rows: pa.Table, table: Table, file: str, keep_codes: bool = False) -> pa.Table:
    """`rows` with exactly the columns of `table`; `file` is named in a StoreError.

    `keep_codes` leaves text as a dictionary and its codes.
    """
    schema = coded_schema(table) if keep_codes else pyarrow_schema(table)
    names = rows.schema.names
    if len(set(names)) != len(names):
        raise StoreError(f"{file} holds a column twice")
    columns = [_column(rows, field, file) for field in schema]
    return pa.table(columns, schema=schema)


def empty_table(table: Table, keep_codes: bool = False) -> pa.Table:
    """No rows, all columns."""
    return (coded_schema(table) if keep_codes else pyarrow_schema(table)).empty_table()


def _column(rows: pa.Table, field: pa.Field, file: str) -> pa.ChunkedArray:
    if field.name not in rows.schema.names:
        if field.name in _CLOCK_NAMES:
            raise StoreError(f"{file} has no column {field.name}: it is no table of slurm_io")
        return pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
    column = _cast(rows.column(field.name), field, file)
    if field.name in _CLOCK_NAMES and column.null_count:
        raise StoreError(f"{file}: column {field.name} holds nulls")
    return column


def _cast(column: pa.ChunkedArray, field: pa.Field, file: str) -> pa.ChunkedArray:
    if column.type == field.type:
        return column
    if not _is_kin(column.type, _plain(field.type)):
        raise StoreError(f"{file}: column {field.name} is {column.type}, not {field.type}")
    try:
        if pa.types.is_dictionary(column.type) and _decoded_bytes(column) > MAX_TEXT_BYTES:
            raise StoreError(f"{file}: column {field.name} unpacks to too much text")
        if pa.types.is_dictionary(field.type):
            return column.cast(_plain(field.type)).dictionary_encode().cast(field.type)
        return column.cast(field.type)
    except (pa.ArrowException, ValueError) as exc:
        raise StoreError(f"{file}: column {field.name} does not fit {field.type}") from exc


def _is_kin(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether a cast keeps the meaning: text to text, whole number to whole number, and so on."""
    have = _plain(have)
    kinds = (pa.types.is_integer, pa.types.is_floating, _is_text, pa.types.is_boolean)
    return pa.types.is_null(have) or any(kind(have) and kind(want) for kind in kinds)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _decoded_bytes(column: pa.ChunkedArray) -> int:
    """Bytes of text that decoding a dictionary column would make, found without making them."""
    total = 0
    for chunk in column.chunks:
        lengths = pc.fill_null(pc.binary_length(chunk.dictionary), 0).cast(pa.int64())
        total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return total
