"""What a node folder has already is found wherever it stands: streams, sealed parts, torn ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_io.errors import StoreError
from slurm_io.store import known_rows
from slurm_io.store.known_rows import last_before, leave_out_known
from slurm_io.store.packed import PackedRows, repeated, unpacked
from slurm_io.store.schema import TABLES
from slurm_io.store.seal import seal_spool
from slurm_io.store.spool import SpoolWriter

WAITS = TABLES["gpu_waits"]
KEY = ("rank", "batch", "mono_ns")
HOUR_NS = 3600 * 10**9
OFFSET_NS = 10**18


def row(mono_ns: int, rank: int | None = 0, pid: int = 1) -> tuple[object, ...]:
    return (mono_ns + OFFSET_NS, mono_ns, pid, rank, 1, 0, mono_ns % 1000, 5)


def write(folder: Path, rows: list[tuple[object, ...]]) -> None:
    writer = SpoolWriter(folder, [WAITS])
    writer.extend("gpu_waits", rows)
    writer.close()


def left_of(folder: Path, rows: list[tuple[object, ...]]) -> list[object]:
    """mono_ns of those that are not known."""
    fresh: dict[tuple[object, ...], Any] = {(one[3], one[6], one[1]): one[1] for one in rows}
    leave_out_known(folder, WAITS, KEY, fresh, OFFSET_NS)
    return list(fresh.values())


def test_rows_of_streams_and_of_sealed_parts(tmp_path: Path) -> None:
    write(tmp_path, [row(1), row(2)])
    seal_spool(tmp_path)
    write(tmp_path, [row(3)])
    write(tmp_path, [row(4, rank=None)])
    asked = [row(2), row(3), row(4, rank=None), row(4), row(5)]
    assert left_of(tmp_path, asked) == [4, 5], "another rank's is another row"
    assert left_of(tmp_path, []) == []


def test_a_part_that_is_older_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, [row(5)])
    seal_spool(tmp_path)
    write(tmp_path, [row(3 * HOUR_NS)])
    seal_spool(tmp_path)
    read: list[str] = []
    real = known_rows.read_any_part

    def noted(folder: Path, part: Any, table: Any) -> Any:
        read.append(part.file_name)
        return real(folder, part, table)

    monkeypatch.setattr(known_rows, "read_any_part", noted)
    assert left_of(tmp_path, [row(3 * HOUR_NS), row(3 * HOUR_NS + 1)]) == [3 * HOUR_NS + 1]
    assert read == ["gpu_waits-0001.parquet"]
    assert left_of(tmp_path, [row(5), row(3 * HOUR_NS)]) == []


def test_a_part_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "gpu_waits-0000.parquet").write_bytes(b"PAR1")
    with pytest.raises(StoreError, match="gpu_waits-0000"):
        left_of(tmp_path, [row(1)])


def test_the_last_row_before_a_moment_is_told_for_each_process(tmp_path: Path) -> None:
    write(tmp_path, [row(10, pid=1), row(20, pid=1), row(30, pid=1)])
    write(tmp_path, [row(15, pid=2)])
    found = last_before(tmp_path, WAITS, ("batch",), {1: 25, 2: 99, 3: 99})
    assert {pid: (one["mono_ns"], one["batch"]) for pid, one in found.items()} == {
        1: (20, 20), 2: (15, 15),
    }  # fmt: skip


def test_packed_rows_taken_apart_are_the_rows() -> None:
    block = PackedRows(
        2, (repeated("int64", 7, 2), repeated("bool", True, 2), repeated("int32", None, 2))
    )
    assert unpacked(("int64", "bool", "int32"), block) == [(7, True, None), (7, True, None)]
