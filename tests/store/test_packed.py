"""Rows that come packed are in the stream as if they had come one by one."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.store.packed import PackedColumn, PackedRows, repeated
from slurm_io.store.schema import TABLES
from slurm_io.store.spool import MAX_BUFFERED_ROWS, SpoolWriter
from slurm_io.store.streams import Row, StreamWriter
from tests.store.rows import plain_row, rows_of
from tests.store.test_streams import as_arrow, read_back, same

STEPS = TABLES["steps"]
_CODES = {"int64": "q", "int32": "i", "float32": "f", "bool": "?"}


def packed(rows: list[Row]) -> PackedRows:
    """Some rows of `steps`; validity only where something is null."""
    columns = []
    for place, column in enumerate(STEPS.columns):
        cells = [row[place] for row in rows]
        data = struct.pack(
            f"<{len(rows)}{_CODES[column.type]}", *(0 if cell is None else cell for cell in cells)
        )
        valid = bytes([cell is not None for cell in cells])
        columns.append(PackedColumn(data, b"" if all(valid) else valid))
    return PackedRows(len(rows), tuple(columns))


def test_packed_rows_come_back_as_the_rows_they_are(tmp_path: Path) -> None:
    path = tmp_path / "t.arrows"
    blocks = st.lists(rows_of(STEPS).filter(bool), max_size=4)

    @settings(max_examples=40, deadline=None)
    @given(rows_of(STEPS), blocks)
    def check(rows: list[Row], blocks: list[list[Row]]) -> None:
        path.unlink(missing_ok=True)
        writer = StreamWriter(path, STEPS)
        writer.extend(rows)
        for block in blocks:
            writer.extend_packed(packed(block))
        every = rows + [row for block in blocks for row in block]
        assert writer.rows_buffered == len(every)
        writer.close()
        assert writer.rows_written == len(every)
        assert not every or same(read_back(path), as_arrow(STEPS, every))

    check()


@pytest.mark.parametrize("value", [None, 0, 7])
def test_the_same_value_in_every_row(value: int | None) -> None:
    column = repeated("int32", value, 3)
    assert struct.unpack("<3i", column.data) == (value or 0,) * 3
    assert column.valid == (bytes(3) if value is None else b"")


def test_a_block_of_another_width_is_refused_and_counted(tmp_path: Path) -> None:
    spool = SpoolWriter(tmp_path, TABLES.values())
    block = packed([plain_row(STEPS, 1)] * 5)
    spool.extend_packed("steps", [block._replace(columns=block.columns[1:]), block])
    spool.close()
    stats = spool.stats()
    assert (stats.rows, stats.dropped_rows) == ({"steps": 5}, 5)


def test_packed_rows_are_flushed_before_they_are_too_many(tmp_path: Path) -> None:
    spool = SpoolWriter(tmp_path, TABLES.values())
    spool.extend_packed("steps", [packed([plain_row(STEPS, 1)] * (MAX_BUFFERED_ROWS // 2))] * 3)
    assert spool.stats().rows == {"steps": MAX_BUFFERED_ROWS}
    spool.close()
    assert spool.stats().rows == {"steps": MAX_BUFFERED_ROWS // 2 * 3}
