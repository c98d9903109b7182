"""Rows that come column by column, each column already as the stream holds it.

For a table that gets hundreds of rows a second from packed records: no tuple a row, and for most
columns no Python number a cell. Numbers and flags only; text comes in rows.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from slurm_io.store.encode import Encoded, bitmap

_CODES = {"int64": "q", "int32": "i", "float64": "d", "float32": "f", "bool": "?"}


class PackedColumn(NamedTuple):
    """`data`: fixed-width values one after the other, of flags a byte of 0 or 1 each. `valid`: a
    byte a value, 0 where it is null; empty = no nulls."""

    data: bytes
    valid: bytes = b""


class PackedRows(NamedTuple):
    """`n_rows` values of each column of a table, in schema order."""

    n_rows: int
    columns: tuple[PackedColumn, ...]


def repeated(column_type: str, value: float | None, n_rows: int) -> PackedColumn:
    """The same value, or null, in every row. struct.error when it does not fit the type."""
    data = struct.pack(_CODES[column_type], value or 0) * n_rows
    return PackedColumn(data, bytes(n_rows) if value is None else b"")


def unpacked(column_types: Sequence[str], block: PackedRows) -> list[tuple[object, ...]]:
    """The same rows as tuples: for whoever has to look at each, and has the time."""
    values = [
        struct.unpack(f"={block.n_rows}{_CODES[column_type]}", column.data)
        for column_type, column in zip(column_types, block.columns, strict=True)
    ]
    cells = [
        [value if ok else None for value, ok in zip(numbers, column.valid, strict=True)]
        if column.valid
        else numbers
        for numbers, column in zip(values, block.columns, strict=True)
    ]
    return list(zip(*cells, strict=True))


def encoded(column_types: Sequence[str], blocks: Sequence[PackedRows]) -> tuple[int, list[Encoded]]:
    """Number of rows, and the columns of all blocks one after the other, as one batch has them."""
    lengths = [block.n_rows for block in blocks]
    by_column = zip(*(block.columns for block in blocks), strict=True)
    return sum(lengths), [
        _joined(column_type, columns, lengths)
        for column_type, columns in zip(column_types, by_column, strict=True)
    ]


def _joined(column_type: str, columns: Sequence[PackedColumn], lengths: Sequence[int]) -> Encoded:
    data = b"".join([column.data for column in columns])
    if column_type == "bool":
        data = bitmap(data)
    if not any(column.valid for column in columns):
        return 0, (b"", data)
    ones = [column.valid or b"\1" * n for column, n in zip(columns, lengths, strict=True)]
    valid = b"".join(ones)
    return valid.count(0), (bitmap(valid), data)
