"""One stream: what goes in comes out, whatever happens to the writer or its disk."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from slurm_io.store.arrow_schema import pyarrow_schema
from slurm_io.store.recover import recover_stream
from slurm_io.store.schema import TABLES, Table
from slurm_io.store.streams import Row, StreamError, StreamWriter
from tests.store.rows import LOG, plain_row, random_row, rows_of, write_stream


def read_back(path: Path) -> pa.Table:
    found = recover_stream(path)
    assert found.damage is None
    return pa.Table.from_batches(found.batches, schema=found.schema)


def as_arrow(table: Table, rows: list[Row]) -> pa.Table:
    """The same rows by pyarrow's own constructors."""
    schema = pyarrow_schema(table)
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    return pa.table(columns, schema=schema)


def same(left: pa.Table, right: pa.Table) -> bool:
    """Equal in schema and cells, NaN equal to NaN."""
    return left.schema.equals(right.schema) and repr(left.to_pylist()) == repr(right.to_pylist())


@pytest.mark.parametrize("name", TABLES)
def test_any_row_comes_back_as_pyarrow_would_hold_it(name: str, tmp_path: Path) -> None:
    table = TABLES[name]
    path = tmp_path / "t.arrows"

    @settings(max_examples=15, deadline=None)
    @given(rows_of(table), rows_of(table))
    def check(first: list[Row], second: list[Row]) -> None:
        path.unlink(missing_ok=True)
        write_stream(path, table, [first, second])
        if first or second:
            assert same(read_back(path), as_arrow(table, first + second))
        else:
            assert path.stat().st_size == 0

    check()


def test_any_arrow_reader_reads_a_stream(tmp_path: Path) -> None:
    rng = random.Random(1)
    batches = [[random_row(LOG, i, rng) for i in range(5)] for _ in range(3)]
    write_stream(tmp_path / "log.arrows", LOG, batches)
    with pa.ipc.open_stream((tmp_path / "log.arrows").read_bytes()) as stream:
        table = stream.read_all()
    table.validate(full=True)
    assert same(table, as_arrow(LOG, [row for batch in batches for row in batch]))


def test_flush_without_rows_writes_nothing(tmp_path: Path) -> None:
    writer = StreamWriter(tmp_path / "log.arrows", LOG)
    assert writer.flush() == 0
    writer.append(plain_row(LOG, 1))
    assert writer.rows_buffered == 1
    written = writer.flush()
    assert written == writer.bytes_written == (tmp_path / "log.arrows").stat().st_size > 0
    assert writer.rows_buffered == 0
    writer.close()


def test_nulls_that_come_and_go_between_flushes(tmp_path: Path) -> None:
    """The encoder remembers whether a column had nulls: both ways must stay right."""
    full = plain_row(LOG, 1)
    hollow = (2, 2, "x", None, None, None, None, None)
    batches = [[full], [hollow], [full, hollow], [full, full], [hollow, hollow]]
    write_stream(tmp_path / "log.arrows", LOG, batches)
    assert same(
        read_back(tmp_path / "log.arrows"),
        as_arrow(LOG, [row for batch in batches for row in batch]),
    )


def test_undecodable_names_are_kept_readable(tmp_path: Path) -> None:
    path = tmp_path / "log.arrows"
    write_stream(path, LOG, [[(1, 1, os.fsdecode(b"/d\xff"), None, None, None, None, "é")]])
    assert read_back(path).to_pylist()[0]["source"] == "/d\\udcff"


@pytest.mark.parametrize(
    ("row", "cells_refused", "rows_kept"),
    [
        ((1, 1, "x", 2**63, None, None, None, None), 1, 2),  # too large for int64: null
        ((1, 1, "x", "seven", None, None, None, None), 1, 2),
        ((1, 1, "x", 7.5, None, None, None, None), 1, 2),
        ((1, 1, "x", 7.0, None, None, None, None), 0, 2),  # a whole number after all
        ((1, 1, None, 7, None, None, None, None), 0, 1),  # null where none may be: row refused
        (("now", 1, "x", 7, None, None, None, None), 1, 1),
        ((1, 1, b"x", 7, None, None, None, None), 1, 1),
        ((1, 1, "x"), 0, 1),
    ],
)
def test_a_bad_cell_costs_itself_not_the_batch(
    row: Row, cells_refused: int, rows_kept: int, tmp_path: Path
) -> None:
    writer = StreamWriter(tmp_path / "log.arrows", LOG)
    writer.append(plain_row(LOG, 5))
    writer.append(row)
    writer.close()
    table = read_back(tmp_path / "log.arrows")
    assert table.num_rows == rows_kept
    assert table.to_pylist()[0]["ts_ns"] == 5
    assert (writer.cells_refused, writer.rows_refused) == (cells_refused, 2 - rows_kept)


def test_a_float_beyond_float32_is_infinite(tmp_path: Path) -> None:
    table = TABLES["gpu"]
    row = list(plain_row(table, 1))
    at = table.column_names().index("power_w")
    row[at] = -1e300
    write_stream(tmp_path / "gpu.arrows", table, [[tuple(row)]])
    assert read_back(tmp_path / "gpu.arrows").to_pylist()[0]["power_w"] == float("-inf")


def test_a_batch_of_only_bad_rows_writes_nothing(tmp_path: Path) -> None:
    writer = StreamWriter(tmp_path / "log.arrows", LOG)
    writer.append((1, 1, None, 7, None, None, None, None))
    assert writer.flush() == 0
    writer.append(plain_row(LOG, 2))
    writer.close()
    assert read_back(tmp_path / "log.arrows").num_rows == 1


@pytest.mark.parametrize("in_the_way", ["file", "link", "folder"])
def test_never_writes_into_something_that_is_there(in_the_way: str, tmp_path: Path) -> None:
    path, victim = tmp_path / "log.arrows", tmp_path / "victim"
    victim.write_text("keep")
    if in_the_way == "file":
        path.write_text("keep")
    elif in_the_way == "link":
        path.symlink_to(victim)
    else:
        path.mkdir()
    with pytest.raises(StreamError, match=r"log\.arrows"):
        StreamWriter(path, LOG)
    assert victim.read_text() == "keep"


def test_a_failing_write_leaves_a_readable_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel takes part of a message, then says EIO: cut back, rows kept, next flush whole."""
    path = tmp_path / "log.arrows"
    writer = StreamWriter(path, LOG)
    writer.append(plain_row(LOG, 1))
    writer.flush()
    real, calls = os.pwrite, []

    def half(fd: int, data: bytes, offset: int) -> int:
        calls.append(offset)
        if len(calls) == 1:
            return real(fd, data[: len(data) // 2], offset)
        raise OSError(5, "Input/output error")

    writer.append(plain_row(LOG, 2))
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", half)
        with pytest.raises(StreamError) as caught:
            writer.flush()
    assert (caught.value.reason, caught.value.broken) == ("EIO", False)
    assert "\n" not in str(caught.value)
    assert read_back(path).num_rows == 1
    assert writer.rows_buffered == 1
    writer.close()
    assert read_back(path)["ts_ns"].to_pylist() == [1, 2]


_WRITER = """
import os, sys
from pathlib import Path
from slurm_io.store.schema import TABLES
from slurm_io.store.streams import StreamWriter
writer = StreamWriter(Path(sys.argv[1]), TABLES["log"])
os.write(1, b"\\0" * 8)
n = 0
while True:
    for _ in range(1 + n % 7):
        writer.append((n, n, "x" * (n % 50), None, 1.0, None, 2.0, "d"))
        n += 1
    writer.flush()
    os.write(1, n.to_bytes(8, "little"))
"""


def test_kill_9_loses_nothing_that_was_flushed(tmp_path: Path) -> None:
    rng = random.Random(4)
    for attempt in range(20):
        path = tmp_path / f"{attempt}.arrows"
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            told = child.stdout.read(8)
            time.sleep(rng.uniform(0, 0.02))
            child.send_signal(signal.SIGKILL)
            told += child.stdout.read()
        flushed_rows = int.from_bytes(told[len(told) // 8 * 8 - 8 : len(told) // 8 * 8], "little")
        found = recover_stream(path)
        seen = [n for batch in found.batches for n in batch["ts_ns"].to_pylist()]
        assert seen == list(range(len(seen)))
        assert len(seen) >= flushed_rows


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=rows_of(LOG))
def test_template_is_not_spoilt_by_an_earlier_batch(rows: list[Row], tmp_path: Path) -> None:
    """Numbers of a large batch must not show through in a later small one."""
    path = tmp_path / "log.arrows"
    path.unlink(missing_ok=True)
    large = [plain_row(LOG, i) for i in range(100)]
    write_stream(path, LOG, [large, rows, large[:1]])
    assert same(read_back(path), as_arrow(LOG, large + rows + large[:1]))
