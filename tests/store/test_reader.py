"""Opening stores: sealed or not, one node or many, old, and hostile."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slurm_io.errors import StoreError
from slurm_io.model import JobIdentity
from slurm_io.store import parquet_part, parts
from slurm_io.store.arrow_schema import pyarrow_schema
from slurm_io.store.reader import open_job
from slurm_io.store.schema import TABLES
from slurm_io.store.seal import seal_spool
from tests.store.rows import LOG, plain_row, write_stream

JOB = JobIdentity("c1", "77", 1, "ada", 1000, nodes=("n1", "n2", "n3"))


def node_folder(path: Path, clocks: list[int], sealed: bool) -> Path:
    path.mkdir(parents=True)
    meta = {"schema": 1, "node": path.name.removeprefix("node="), "job": JOB.to_dict()}
    (path / "meta.json").write_text(json.dumps(meta))
    write_stream(path / "log.arrows", LOG, [[plain_row(LOG, ts)] for ts in clocks])
    if sealed:
        seal_spool(path)
    return path


@pytest.mark.parametrize("name", TABLES)
def test_a_missing_table_is_empty_with_all_columns(name: str, tmp_path: Path) -> None:
    node_folder(tmp_path / "n1", [1], True)
    store = open_job(tmp_path / "n1")
    if name != "log":
        table = store.nodes["n1"].table(name)
        assert table.num_rows == 0
        assert table.schema.equals(pyarrow_schema(TABLES[name]))
    assert store.table(name).schema.names == [*TABLES[name].column_names(), "node"]


def test_a_job_store_of_several_nodes(tmp_path: Path) -> None:
    node_folder(tmp_path / "node=n2", [5, 4], True)
    node_folder(tmp_path / "node=n1", [9], False)
    (tmp_path / "DONE.n1").write_text("{}")
    (tmp_path / "report.txt").write_text("fine")
    (tmp_path / "plots").mkdir()
    (tmp_path / "node=n3.partial-12").mkdir()
    told = {
        "schema": 1,
        "job": JOB.to_dict(),
        "nodes_expected": ["n1", "n2", "n3"],
        "command": ["x"],
    }
    (tmp_path / "job.json").write_text(json.dumps(told))
    store = open_job(tmp_path)
    assert list(store.nodes) == ["n1", "n2"]
    assert store.job == JOB
    assert store.nodes_expected == ("n1", "n2", "n3")
    assert store.extra["command"] == ["x"]
    rows = store.table("log").select(["node", "ts_ns"]).to_pylist()
    assert [(row["node"], row["ts_ns"]) for row in rows] == [("n1", 9), ("n2", 4), ("n2", 5)]


def test_a_spool_of_node_folders(tmp_path: Path) -> None:
    node_folder(tmp_path / "n1", [1], False)
    node_folder(tmp_path / "n2", [2], False)
    store = open_job(tmp_path)
    assert list(store.nodes) == ["n1", "n2"]
    assert store.job == JOB
    assert store.nodes_expected == JOB.nodes


def test_a_node_folder_without_meta(tmp_path: Path) -> None:
    write_stream(tmp_path / "log.arrows", LOG, [[plain_row(LOG, 1)]])
    store = open_job(tmp_path)
    assert list(store.nodes) == [tmp_path.name]
    assert store.job is None
    assert store.nodes[tmp_path.name].meta == {}
    assert store.nodes[tmp_path.name].self_cost is None


def test_a_job_whose_nodes_have_not_delivered_yet(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps({"job": JOB.to_dict()}))
    store = open_job(tmp_path)
    assert (store.nodes, store.nodes_expected) == ({}, JOB.nodes)
    assert store.table("log").num_rows == 0


def test_sealed_and_unsealed_parts_together(tmp_path: Path) -> None:
    node_folder(tmp_path / "n1", [3, 1], True)
    write_stream(tmp_path / "n1" / "log.arrows", LOG, [[plain_row(LOG, 2)]], close=False)
    assert open_job(tmp_path / "n1").table("log")["ts_ns"].to_pylist() == [1, 2, 3]


def test_a_part_in_both_forms_counts_once(tmp_path: Path) -> None:
    """Sealing was killed between the rename and the removal of the stream."""
    folder = node_folder(tmp_path / "n1", [1, 2], False)
    stream = (folder / "log.arrows").read_bytes()
    seal_spool(folder)
    (folder / "log-0000.arrows").write_bytes(stream)
    assert open_job(folder).table("log")["ts_ns"].to_pylist() == [1, 2]


def write_parquet(folder: Path, table: pa.Table, **options: Any) -> Path:
    path = folder / "log-0000.parquet"
    pq.write_table(table, path, **options)
    return path


CLOCK = pa.array([1, 2], pa.int64())


def test_an_older_store_lacks_columns(tmp_path: Path) -> None:
    write_parquet(tmp_path, pa.table({"ts_ns": CLOCK, "mono_ns": CLOCK, "unknown": [1, 2]}))
    table = open_job(tmp_path).nodes[tmp_path.name].table("log")
    assert table.schema.equals(pyarrow_schema(LOG))
    assert table["detail"].null_count == 2


def test_kindred_types_are_widened(tmp_path: Path) -> None:
    step = pa.array([7, None], pa.int32())
    source = pa.array(["a", "a"]).dictionary_encode()
    table = pa.table({"ts_ns": CLOCK, "mono_ns": CLOCK, "step": step, "source": source})
    write_parquet(tmp_path, table)
    rows = open_job(tmp_path).table("log").to_pylist()
    assert [(row["step"], row["source"]) for row in rows] == [(7, "a"), (None, "a")]


@pytest.mark.parametrize(
    "columns",
    [
        {"mono_ns": CLOCK},  # no clock
        {"ts_ns": pa.array([1, None], pa.int64()), "mono_ns": CLOCK},
        {"ts_ns": pa.array(["1", "2"]), "mono_ns": CLOCK},
        {"ts_ns": CLOCK, "mono_ns": CLOCK, "step": pa.array(["7", "8"])},
        {"ts_ns": CLOCK, "mono_ns": CLOCK, "step": pa.array([[7], [8]])},
        {"ts_ns": CLOCK, "mono_ns": CLOCK, "source": pa.array([b"\xff", b"x"])},
        {"ts_ns": pa.array([2**64 - 1, 1], pa.uint64()), "mono_ns": CLOCK},
    ],
)
def test_wrong_columns_name_the_file(columns: dict[str, pa.Array], tmp_path: Path) -> None:
    path = write_parquet(tmp_path, pa.table(columns))
    with pytest.raises(StoreError, match="log-0000.parquet") as caught:
        open_job(tmp_path).table("log")
    assert "\n" not in str(caught.value)
    assert path.exists()


def test_a_column_twice(tmp_path: Path) -> None:
    schema = pa.schema([("ts_ns", pa.int64()), ("mono_ns", pa.int64()), ("ts_ns", pa.int64())])
    write_parquet(tmp_path, pa.table([CLOCK, CLOCK, CLOCK], schema=schema))
    with pytest.raises(StoreError, match="log-0000.parquet"):
        open_job(tmp_path).table("log")


def test_another_tables_file_under_our_name(tmp_path: Path) -> None:
    write_parquet(tmp_path, pyarrow_schema(TABLES["gpu"]).empty_table())
    with pytest.raises(StoreError, match="renamed"):
        open_job(tmp_path).table("log")


@pytest.mark.parametrize("version", [b"2", b"x", b"9" * 30])
def test_a_newer_schema_is_refused(version: bytes, tmp_path: Path) -> None:
    marks = {b"slurm_io.table": b"log", b"slurm_io.schema": version}
    write_parquet(tmp_path, pyarrow_schema(LOG).empty_table().replace_schema_metadata(marks))
    with pytest.raises(StoreError, match="version"):
        open_job(tmp_path).table("log")


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"PAR1" * 100, bytes(1000), b"PAR1\xff\xff\xff\x7fPAR1"]
)
def test_a_parquet_file_that_is_none(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "log-0000.parquet").write_bytes(data)
    with pytest.raises(StoreError, match="log-0000.parquet") as caught:
        open_job(tmp_path).table("log")
    assert "\n" not in str(caught.value)


def test_a_flipped_byte_in_parquet_is_an_error_or_rows_never_a_crash(tmp_path: Path) -> None:
    node_folder(tmp_path / "n1", list(range(20)), True)
    path = tmp_path / "n1" / "log-0000.parquet"
    whole = path.read_bytes()
    for position in range(0, len(whole), 3):
        torn = bytearray(whole)
        torn[position] ^= 0x55
        path.write_bytes(torn)
        try:
            table = open_job(tmp_path / "n1").table("log")
        except StoreError as exc:
            assert "log-0000.parquet" in str(exc)
        else:
            table.validate(full=True)


def test_text_that_unpacks_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes on disk that stand for gigabytes of text are refused before unpacking."""
    rows = 100_000
    clock = pa.array(range(rows), pa.int64())
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * 50_000])
    path = write_parquet(
        tmp_path, pa.table({"ts_ns": clock, "mono_ns": clock, "detail": text}), compression="zstd"
    )
    assert path.stat().st_size < 2_000_000
    before = pa.total_allocated_bytes()
    with pytest.raises(StoreError, match="too much text"):
        open_job(tmp_path).table("log")
    assert pa.total_allocated_bytes() - before < 100_000_000


def test_more_rows_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(tmp_path, pa.table({"ts_ns": CLOCK, "mono_ns": CLOCK}))
    monkeypatch.setattr(parquet_part, "MAX_ROWS", 1)
    with pytest.raises(StoreError, match="claims 2 rows"):
        open_job(tmp_path).table("log")


@pytest.mark.parametrize("name", ["meta.json", "self.json", "job.json", "log-0000.parquet"])
@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "huge"])
def test_things_that_are_no_files(name: str, kind: str, tmp_path: Path) -> None:
    node_folder(tmp_path / "n1", [1], False)
    path = tmp_path / "n1" / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "folder":
        path.mkdir()
    else:
        with open(path, "wb") as file:
            file.truncate(1 << 40)
    if name.endswith("parquet"):
        with pytest.raises(StoreError, match=name):
            open_job(tmp_path / "n1").table("log")
        return
    # A small file costs itself: the rows are read, and what is missing is named.
    store = open_job(tmp_path / "n1")
    assert store.table("log").num_rows == 1
    noted = [*store.damage, *store.nodes["n1"].damage]
    assert [entry["file"] for entry in noted] == [name]
    assert str(path) in noted[0]["reason"] and "not known" in noted[0]["missing"]


NONSENSE = ["", "[]", "nonsense", "[" * 100_000, '{"schema": "1"}', '{"schema": 0}',
            '{"schema": true}', '{"schema": null}']  # fmt: skip


def two_nodes(path: Path) -> Path:
    node_folder(path / "node=n1", [1, 2], True)
    node_folder(path / "node=n2", [3], True)
    told = {"schema": 1, "job": JOB.to_dict(), "nodes_expected": ["n1", "n2"]}
    (path / "job.json").write_text(json.dumps(told))
    return path


@pytest.mark.parametrize("text", [*NONSENSE, '{"damage": 5}', '{"damage": [5]}'])
def test_a_damaged_meta_json_costs_its_own_facts_and_nothing_else(
    text: str, tmp_path: Path
) -> None:
    (two_nodes(tmp_path) / "node=n1/meta.json").write_text(text)
    store = open_job(tmp_path)
    assert sorted(store.nodes) == ["n1", "n2"]
    assert store.table("log").num_rows == 3
    (entry,) = store.nodes["n1"].damage
    assert entry["file"] == "meta.json" and "meta.json" in entry["reason"]
    assert "ranks" in entry["missing"] and "\n" not in entry["reason"]
    assert store.nodes["n2"].damage == [] and store.nodes["n2"].meta["node"] == "n2"


@pytest.mark.parametrize("name", ["self.json", "checks.json"])
@pytest.mark.parametrize("text", ["", "[]", '{"cpu_s": '])
def test_a_damaged_self_json_or_checks_json_is_noted(name: str, text: str, tmp_path: Path) -> None:
    (two_nodes(tmp_path) / "node=n2" / name).write_text(text)
    node = open_job(tmp_path).nodes["n2"]
    assert (node.self_cost, node.checks) == (None, None)
    assert [entry["file"] for entry in node.damage] == [name]


def test_a_job_that_is_half_told_is_taken_from_the_next_file(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    half = {"schema": 1, "job": {"cluster": "c"}}
    (tmp_path / "job.json").write_text(json.dumps(half))
    (tmp_path / "node=n1/meta.json").write_text(json.dumps(half))
    store = open_job(tmp_path)
    assert store.job == JOB
    assert [entry["file"] for entry in store.damage] == ["job.json", "meta.json"]


@pytest.mark.parametrize("text", [*NONSENSE, '{"nodes_expected": "n1"}', '{"job": {"job": "1"}}'])
def test_a_damaged_job_json_is_noted_and_the_nodes_tell_the_job(text: str, tmp_path: Path) -> None:
    (two_nodes(tmp_path) / "job.json").write_text(text)
    store = open_job(tmp_path)
    assert store.job == JOB
    assert store.nodes_expected == (JOB.nodes or ("n1", "n2"))
    assert [entry["file"] for entry in store.damage] == ["job.json"]


@pytest.mark.parametrize("name", ["job.json", "node=n1/meta.json"])
def test_what_a_newer_slurm_io_wrote_is_refused_in_one_clear_line(
    name: str, tmp_path: Path
) -> None:
    path = two_nodes(tmp_path) / name
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))
    with pytest.raises(StoreError) as caught:
        open_job(tmp_path)
    assert str(caught.value) == (
        f"{path} has schema version 99, this slurm_io knows 1: read it with a newer slurm_io"
    )


def test_a_store_of_nothing_but_a_damaged_job_json_says_what_is_wrong_with_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "job.json").write_text("{")
    with pytest.raises(StoreError, match=r"job\.json is not valid JSON"):
        open_job(tmp_path)


def test_a_linked_node_folder_is_not_followed(tmp_path: Path) -> None:
    node_folder(tmp_path / "elsewhere" / "node=n1", [1], True)
    store = tmp_path / "store"
    store.mkdir()
    (store / "job.json").write_text("{}")
    (store / "node=n1").symlink_to(tmp_path / "elsewhere" / "node=n1")
    assert open_job(store).nodes == {}


@pytest.mark.parametrize("name", ["node=n2", "plots"])
def test_a_folder_that_cannot_be_listed_costs_what_is_in_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closed to the reader, hung or, as here, absurdly full."""
    node_folder(tmp_path / "node=n1", [1], True)
    node_folder(tmp_path / name, [2], True)
    for number in range(9):
        (tmp_path / name / f"file-{number}").touch()
    monkeypatch.setattr(parts, "MAX_ENTRIES", 8)
    store = open_job(tmp_path)
    assert list(store.nodes) == ["n1"]
    [noted] = store.damage
    assert "holds more than 8 files" in noted["reason"]
    assert noted.get("node") == ("n2" if name == "node=n2" else None)


def test_a_store_whose_only_node_cannot_be_listed_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node_folder(tmp_path / "node=n1", [1], True)
    monkeypatch.setattr(parts, "MAX_ENTRIES", 1)
    with pytest.raises(StoreError, match="node=n1 holds more than 1 files"):
        open_job(tmp_path)


@pytest.mark.parametrize("what", ["nothing", "file", "empty"])
def test_no_store_at_all(what: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    if what == "file":
        path.write_text("x")
    elif what == "empty":
        path.mkdir()
    with pytest.raises(StoreError, match="store"):
        open_job(path)


def test_an_unknown_table_says_which_exist(tmp_path: Path) -> None:
    node_folder(tmp_path / "n1", [1], True)
    with pytest.raises(StoreError, match="capacity"):
        open_job(tmp_path / "n1").table("blocks")
    with pytest.raises(StoreError, match="capacity"):
        open_job(tmp_path / "n1").nodes["n1"].table("blocks")


@pytest.mark.parametrize("sealed", [True, False])
def test_only_the_columns_asked_for(sealed: bool, tmp_path: Path) -> None:
    node_folder(tmp_path / "n1", [2, 1], sealed)
    whole = open_job(tmp_path / "n1").table("log")
    some = open_job(tmp_path / "n1").table("log", ["detail", "step"])
    assert some.schema.names == ["ts_ns", "mono_ns", "step", "detail", "node"]
    assert some.equals(whole.select(some.schema.names))
    with pytest.raises(StoreError, match="no column stepp"):
        open_job(tmp_path / "n1").table("log", ["stepp"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"comment": {"a": 1}}, {"gpus_on_node": "8"}, {"gpus_on_node": True}, {"name": 5},
        {"nodes": {"n1": 1}}, {"nodes": [1]}, {"uid": 0.5}, {"user": None}, {"restart": []},
    ],
)  # fmt: skip
def test_a_job_of_wrong_types_costs_itself(wrong: dict[str, object], tmp_path: Path) -> None:
    node_folder(tmp_path / "node=n1", [9], True)
    (tmp_path / "node=n1" / "meta.json").write_text("{}")
    (tmp_path / "job.json").write_text(json.dumps({"job": {**JOB.to_dict(), **wrong}}))
    store = open_job(tmp_path)
    assert store.job is None
    assert "job is incomplete" in store.damage[0]["reason"]
    assert next(iter(wrong)) in store.damage[0]["reason"]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_what_is_no_json_number_costs_its_file(number: str, tmp_path: Path) -> None:
    node_folder(tmp_path / "node=n1", [9], True)
    (tmp_path / "job.json").write_text(f'{{"exit_code": {number}}}')
    store = open_job(tmp_path)
    assert store.extra == {}
    assert "is no JSON number" in store.damage[0]["reason"]


def test_names_that_utf8_cannot_hold_are_replaced(tmp_path: Path) -> None:
    """A mount of bytes that are no UTF-8, or an attack: no table and no report can hold it."""
    node_folder(tmp_path / "node=n1", [9], True)
    (tmp_path / "node=n1" / "meta.json").write_text(
        '{"mounts": [{"mount": "/\\udcff\\ud83d\\ude00"}]}'
    )
    (tmp_path / "job.json").write_text('{"command": ["\\ud800"]}')
    store = open_job(tmp_path)
    assert store.nodes["n1"].meta["mounts"] == [{"mount": "/\ufffd\U0001f600"}]
    assert store.extra["command"] == ["\ufffd"]
