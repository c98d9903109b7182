"""Sealing: the same rows before and after, smaller, and safe to kill at every step."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slurm_io.errors import StoreError
from slurm_io.store.reader import open_job
from slurm_io.store.schema import TABLES
from slurm_io.store.seal import seal_spool
from slurm_io.store.streams import Row
from tests.store.rows import LOG, plain_row, random_row, write_stream

REPOSITORY = Path(__file__).parents[2]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fill(folder: Path) -> None:
    """Two tables, rotated and live parts, rows out of order, one torn stream."""
    rng = random.Random(3)
    for name, table in (("log", LOG), ("block", TABLES["block"])):
        for part in range(2):
            batches = [
                [random_row(table, 100 * part + rng.randrange(100), rng) for _ in range(5)]
                for _ in range(3)
            ]
            write_stream(folder / f"{name}-{part:04d}.arrows", table, batches)
        write_stream(folder / f"{name}.arrows", table, [[plain_row(table, 500)]], close=False)
    with open(folder / "log-0001.arrows", "r+b") as file:
        file.truncate(file.seek(0, 2) - 100)
    (folder / "meta.json").write_text('{"schema": 1, "node": "n1"}')


def all_rows(folder: Path) -> dict[str, list[dict[str, object]]]:
    store = open_job(folder)
    return {name: store.nodes["n1"].table(name).to_pylist() for name in ("log", "block")}


def test_rows_are_the_same_before_and_after(tmp_path: Path) -> None:
    fill(tmp_path)
    before = all_rows(tmp_path)
    damage_before = open_job(tmp_path).nodes["n1"].damage
    result = seal_spool(tmp_path)
    assert names_in(tmp_path) == [
        "block-0000.parquet", "block-0001.parquet", "block-0002.parquet",
        "log-0000.parquet", "log-0001.parquet", "log-0002.parquet", "meta.json",
    ]  # fmt: skip
    assert all_rows(tmp_path) == before
    assert result.rows == {name: len(rows) for name, rows in before.items()}
    assert (result.failed, result.live) == ({}, [])
    assert [entry["file"] for entry in damage_before] == ["log-0001.arrows"]
    assert open_job(tmp_path).nodes["n1"].damage == damage_before == result.damage
    assert json.loads((tmp_path / "meta.json").read_text())["node"] == "n1"


def test_sealing_twice_changes_nothing(tmp_path: Path) -> None:
    fill(tmp_path)
    seal_spool(tmp_path)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    again = seal_spool(tmp_path)
    assert again.sealed == []
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_killed_at_any_step_loses_and_doubles_nothing(tmp_path: Path) -> None:
    template, copies = tmp_path / "template", tmp_path / "copies"
    template.mkdir()
    copies.mkdir()
    fill(template)
    before = all_rows(template)
    command = [sys.executable, "-m", "tests.store.kill_seal", template, copies]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=REPOSITORY)
    assert int(done.stdout) > 30  # steps there were to die at
    whole = names_in(copies / f"{int(done.stdout):04d}")
    for copy in sorted(copies.iterdir()):
        assert all_rows(copy) == before, copy.name
        seal_spool(copy)
        assert all_rows(copy) == before, copy.name
        assert names_in(copy) == whole
        assert [d["file"] for d in open_job(copy).nodes["n1"].damage] == ["log-0001.arrows"]


def test_parquet_is_sorted_by_time_then_key(tmp_path: Path) -> None:
    table = TABLES["capacity"]
    at = table.column_names().index("mount")

    def row(ts_ns: int, mount: str) -> Row:
        cells = list(plain_row(table, ts_ns))
        cells[at] = mount
        return tuple(cells)

    write_stream(tmp_path / "capacity.arrows", table, [[row(2, "/b"), row(1, "/b"), row(1, "/a")]])
    seal_spool(tmp_path)
    rows = pq.read_table(tmp_path / "capacity-0000.parquet")
    assert list(zip(rows["ts_ns"].to_pylist(), rows["mount"].to_pylist(), strict=True)) == [
        (1, "/a"), (1, "/b"), (2, "/b"),
    ]  # fmt: skip


def test_an_empty_stream_goes_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "log.arrows").touch()
    assert seal_spool(tmp_path).failed == {}
    assert names_in(tmp_path) == []


def test_a_stream_of_nothing_but_damage_leaves_its_damage(tmp_path: Path) -> None:
    (tmp_path / "log.arrows").write_bytes(bytes(100))
    seal_spool(tmp_path)
    store = open_job(tmp_path)
    assert store.table("log").num_rows == 0
    damage = json.loads((tmp_path / "meta.json").read_text())["damage"]
    assert (damage[0]["lost_bytes"], damage[0]["offset_bytes"]) == (100, 0)


def test_a_stream_of_an_unknown_table_stays(tmp_path: Path) -> None:
    (tmp_path / "future-0000.arrows").write_bytes(b"x")
    assert "no table future" in seal_spool(tmp_path).failed["future-0000.arrows"]
    assert names_in(tmp_path) == ["future-0000.arrows"]


def test_one_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "log-0000.arrows").mkdir()
    write_stream(tmp_path / "log-0001.arrows", LOG, [[plain_row(LOG, 1)]])
    result = seal_spool(tmp_path)
    assert result.sealed == ["log-0001.parquet"]
    assert list(result.failed) == ["log-0000.arrows"]


def test_no_space_keeps_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)
    before = all_rows(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_table", full)
        result = seal_spool(tmp_path)
    assert len(result.failed) == 6
    assert all("No space left" in reason for reason in result.failed.values())
    assert all_rows(tmp_path) == before
    assert [name for name in names_in(tmp_path) if name.startswith(".")] == []
    assert seal_spool(tmp_path).failed == {}
    assert all_rows(tmp_path) == before


def test_two_at_once(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(StoreError, match="another process"):
        seal_spool(tmp_path)
    os.close(fd)
    assert seal_spool(tmp_path).failed == {}


def test_a_torn_meta_json_does_not_stop_sealing(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "meta.json").write_text('{"schema": 1, "no')
    assert seal_spool(tmp_path).failed == {}
    assert json.loads((tmp_path / "meta.json").read_text())["damage"]


def test_as_a_program(tmp_path: Path) -> None:
    fill(tmp_path)
    command = [sys.executable, "-m", "slurm_io.store.seal"]
    done = subprocess.run([*command, tmp_path], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["rows"]["log"] > 0
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
    nowhere = [*command, tmp_path / "no"]
    missing = subprocess.run(nowhere, capture_output=True, text=True, check=False)
    assert missing.returncode == 3
    assert missing.stderr.count("\n") == 1
    assert "Traceback" not in missing.stderr


def test_other_tools_read_the_parquet(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    fill(tmp_path)
    before = all_rows(tmp_path)
    seal_spool(tmp_path)
    frame = polars.read_parquet(tmp_path / "block-*.parquet")
    assert len(frame) == len(before["block"])
    assert frame.columns == list(TABLES["block"].column_names())
    assert isinstance(frame.to_arrow(), pa.Table)
