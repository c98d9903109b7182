"""The record a node keeps of a dataset: bound to where it was made, replaced as a whole."""

import json
import multiprocessing
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.errors import HostError
from slurm_io.staging import record as records
from slurm_io.staging.record import Record
from slurm_io.staging.verify.identity import FileSystem, Machine
from slurm_io.staging.verify.table import TableDamaged, TableForm
from tests.labs.fault_kit import Bench

PLAIN = Record(
    name="c4",
    tier="local",
    path="/data/c4",
    content_id="c1-" + "0" * 32,
    state="copying",
    machine=Machine("0" * 32, "n1"),
    filesystem=FileSystem("ext4", "uuid:1", "/data"),
    root_inode=7,
)


def folder_of(state: Path) -> Path:
    return state / "datasets" / "c4@local"


def save(state: Path, record: Record = PLAIN) -> Record:
    with records.locked(os.fspath(state), record.name, record.tier) as folder:
        return records.save(folder, record)


def test_it_reads_back_as_it_was_written(tmp_path: Path) -> None:
    save(tmp_path / "state")
    assert records.load(os.fspath(tmp_path / "state"), "c4", "local") == PLAIN


def test_none_where_there_is_none(tmp_path: Path) -> None:
    assert records.load(os.fspath(tmp_path / "absent"), "c4", "local") is None
    save(tmp_path)
    assert records.load(os.fspath(tmp_path), "c4", "shared") is None


def test_everybody_may_read_it(tmp_path: Path) -> None:
    os.umask(before := os.umask(0o077))
    try:
        os.umask(0o077)
        bench = Bench.made(tmp_path)
    finally:
        os.umask(before)
    folder = bench.state_dir / "datasets" / "demo@local"
    modes = {p.name.partition("-")[0]: stat.S_IMODE(p.stat().st_mode) for p in folder.iterdir()}
    assert modes == {"record.json": 0o644, "files": 0o644, "lock": 0o600}


def test_a_raw_path_cannot_escape_from_the_state_folder(tmp_path: Path) -> None:
    name = "/data/../../etc"
    save(tmp_path, replace(PLAIN, name=name))
    (folder,) = (tmp_path / "datasets").iterdir()
    assert folder.name.startswith("=")
    found = records.load(os.fspath(tmp_path), name, "local")
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("name", ["", "a\nb", ".."])
def test_a_bad_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(HostError):
        save(tmp_path, replace(PLAIN, name=name))


def test_a_failed_write_leaves_the_old_record(tmp_path: Path) -> None:
    bench = Bench.made(tmp_path)
    before = bench.record()

    def fail(out: BinaryIO, name: str) -> TableForm:
        out.write(b"half")
        raise OSError("disk full")

    with (
        records.locked(os.fspath(bench.state_dir), "demo", "local") as folder,
        pytest.raises(HostError, match="cannot be written"),
    ):
        assert before is not None
        records.save(folder, before, fail)
    assert bench.record() == before
    assert bench.verify(1).used_record
    files = {p.name for p in (bench.state_dir / "datasets" / "demo@local").iterdir()}
    assert before.table is not None
    assert files == {"record.json", "lock", before.table.file}


def test_what_killed_writers_left_is_swept(tmp_path: Path) -> None:
    save(tmp_path)
    for name in ("files-dead.bin", ".record.json.dead", "journal.bin"):
        (folder_of(tmp_path) / name).write_bytes(b"x")
    save(tmp_path)
    names = {p.name for p in folder_of(tmp_path).iterdir()}
    assert names == {"record.json", "lock", "journal.bin"}


def _hold(state: str, held: "multiprocessing.synchronize.Event", let_go: object) -> None:
    with records.locked(state, "c4", "local"):
        held.set()
        let_go.wait(10)  # type: ignore[attr-defined]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held, let_go = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(os.fspath(tmp_path), held, let_go))
    other.start()
    try:
        assert held.wait(20)
        with (
            pytest.raises(HostError, match="somebody else"),
            records.locked(os.fspath(tmp_path), "c4", "local"),
        ):
            pass
    finally:
        let_go.set()
        other.join()
    with records.locked(os.fspath(tmp_path), "c4", "local"):
        pass


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_state_folder_that_a_user_can_change_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "state")
    os.chown(tmp_path / "state" / "datasets", 12345, 12345)
    with pytest.raises(HostError, match="belongs to uid 12345"):
        records.load(os.fspath(tmp_path / "state"), "c4", "local")


@pytest.mark.parametrize("what", ["link", "fifo"])
def test_a_link_or_fifo_in_place_of_the_record_is_refused(what: str, tmp_path: Path) -> None:
    save(tmp_path)
    path = folder_of(tmp_path) / "record.json"
    moved = path.rename(tmp_path / "moved.json")
    path.symlink_to(moved) if what == "link" else os.mkfifo(path)
    with pytest.raises(HostError):
        records.load(os.fspath(tmp_path), "c4", "local")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_an_error(raw: bytes) -> None:
    try:
        records.parse(raw)
    except HostError:
        return
    raise AssertionError("no random bytes are a record")


@given(
    st.sampled_from(list(PLAIN.to_dict())),
    st.one_of(st.none(), st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=2)),
)
def test_any_value_of_any_key_is_taken_or_an_error(key: str, value: object) -> None:
    raw = json.dumps(PLAIN.to_dict() | {key: value}).encode()
    try:
        record = records.parse(raw)
    except HostError:
        return
    assert record.state in (
        "absent",
        "copying",
        "copied",
        "verifying",
        "ready",
        "degraded",
        "failed",
    )
    assert isinstance(record.root_inode, int)


@pytest.mark.parametrize("damage", ["cut", "flip", "gone", "link"])
def test_a_damaged_table_proves_nothing(damage: str, tmp_path: Path) -> None:
    bench = Bench.made(tmp_path)
    record = bench.record()
    assert record is not None
    assert record.table is not None
    path = bench.state_dir / "datasets" / "demo@local" / record.table.file
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[:-1])
    elif damage == "gone":
        path.unlink()
    elif damage == "link":
        path.rename(tmp_path / "table")
        path.symlink_to(tmp_path / "table")
    else:
        path.write_bytes(data.replace(b"index.json", b"Index.json"))
        answer = bench.verify(1)
        assert answer.answer == "OK"
        assert "damaged" in (answer.record_problem or "")
        assert bench.verify(1, with_manifest=False).answer == "UNKNOWN"
        return
    with pytest.raises(HostError):
        records.open_table(os.fspath(bench.state_dir), record)
    assert issubclass(TableDamaged, HostError)
