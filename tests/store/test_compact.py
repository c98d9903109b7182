"""A compacted store says what its node folders said, whatever happens on the way there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from slurm_io.errors import StoreError
from slurm_io.store import compact as compact_module
from slurm_io.store import compact_table
from slurm_io.store.compact import compact
from slurm_io.store.compacted import is_worthwhile
from slurm_io.store.deliver import deliver
from slurm_io.store.markers import arrivals, arrived, claim_leader, keep_lead
from slurm_io.store.reader import open_job
from slurm_io.store.schema import TABLES
from slurm_io.store.seal import seal_spool
from tests.store.rows import LOG, STEPS, plain_row, write_stream
from tests.store.wide_store import FEW_TABLES, all_of, deliver_node, make_store, names_in

REPOSITORY = Path(__file__).parents[2]

NODES = ["n1", "n10", "n2", "n3"]
COMPACTED = [
    "compacted.json", "job.json", "log.parquet", "nodes.jsonl", "steps.parquet", "waits.parquet",
]  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store", NODES)


def node_folders(store: Path) -> list[str]:
    return [name for name in names_in(store) if name.startswith("node=")]


def test_nothing_is_lost_and_few_files_stay(store: Path) -> None:
    before, came = all_of(store), arrivals(store)
    done = compact(store)
    assert (done.nodes, done.left) == (NODES, {})
    assert names_in(store) == COMPACTED
    assert all_of(store) == before
    assert arrivals(store) == came
    assert open_job(store).job == open_job(store).job
    assert open_job(store).nodes_expected == tuple(NODES)


def test_every_table_keeps_its_types_and_values(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", ["n1", "n2"], tables=tuple(TABLES))
    before, joined = all_of(store), open_job(store).table("process")
    compact(store)
    assert all_of(store) == before
    assert open_job(store).table("process").equals(joined)
    narrow = open_job(store).nodes["n2"].table("waits", ["path"])
    assert narrow.schema.names == ["ts_ns", "mono_ns", "path"]


def test_a_node_shares_no_row_group(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact_table, "GROUP_ROWS", 4)
    before = all_of(store)
    compact(store)
    with pq.ParquetFile(store / "steps.parquet") as file:
        owners = [
            set(file.read_row_group(group, ["node"])["node"].to_pylist())
            for group in range(file.num_row_groups)
        ]
    assert [len(names) for names in owners] == [1] * 8, "two parts of each node"
    assert all_of(store) == before


def test_others_read_it_as_plain_parquet(store: Path) -> None:
    rows = open_job(store).table("log")
    compact(store)
    plain = pq.read_table(store / "log.parquet")
    assert plain["node"].to_pylist() == rows["node"].to_pylist()
    assert plain["ts_ns"].to_pylist() == rows["ts_ns"].to_pylist()


def test_damage_found_in_sealing_is_kept(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", NODES)
    with_damage = tmp_path / "spool-bad"
    with_damage.mkdir()
    write_stream(with_damage / "log.arrows", LOG, [[plain_row(LOG, 1)], [plain_row(LOG, 2)]])
    stream = with_damage / "log.arrows"
    stream.write_bytes(stream.read_bytes()[:-40])
    seal_spool(with_damage)
    deliver(with_damage, store, "bad")
    before = all_of(store)
    assert before["bad"]["damage"]
    compact(store)
    assert all_of(store) == before
    with pq.ParquetFile(store / "log.parquet") as file:
        told = json.loads(file.metadata.metadata[b"slurm_io.nodes"])
    assert told["bad"]["damage"] == before["bad"]["damage"]
    assert "damage" not in told["n1"]


def test_a_store_of_few_files_stays_as_it_is(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", ["n1"])
    before = names_in(store)
    assert not is_worthwhile(store)
    compact(store)
    assert names_in(store) == before


def test_two_hundred_nodes_are_a_dozen_files(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", ["n1"], parts=1)
    for number in range(2, 201):
        shutil.copytree(store / "node=n1", store / f"node=n{number}")
        shutil.copy2(store / "DONE.n1", store / f"DONE.n{number}")
        (store / f"job.n{number}.json").write_text('{"spool": null, "exit_code": 0}')
    came = arrivals(store)
    assert len(came) == 200
    compact(store)
    assert len(names_in(store)) <= 15
    assert arrivals(store) == came
    assert open_job(store).table("steps").num_rows == 200 * 5
    found = dict(open_job(store).together("steps", ["pid"]))
    assert len(found) == 200


@pytest.mark.parametrize(
    "name", ["log.arrows", "log-0009.arrows", "notes.txt", "future-0000.parquet"]
)
def test_a_node_that_holds_more_keeps_its_folder(store: Path, name: str) -> None:
    if name.endswith(".arrows"):
        write_stream(store / "node=n2" / name, LOG, [[plain_row(LOG, 500)]])
    else:
        (store / "node=n2" / name).write_text("mine")
    before = all_of(store)
    done = compact(store)
    assert list(done.left) == ["n2"]
    assert name in done.left["n2"]
    assert node_folders(store) == ["node=n2"]
    assert name in names_in(store / "node=n2")
    assert all_of(store) == before


def test_a_part_with_columns_of_tomorrow_is_left_alone(store: Path) -> None:
    part = store / "node=n3" / "log-0000.parquet"
    rows = pq.read_table(part)
    pq.write_table(rows.append_column("tomorrow", rows["ts_ns"]), part)
    done = compact(store)
    assert "tomorrow" in done.left["n3"]
    assert node_folders(store) == ["node=n3"]


def test_a_node_not_delivered_yet_stays(store: Path) -> None:
    (store / "DONE.n2").unlink()
    before = all_of(store)
    assert list(compact(store).left) == ["n2"]
    assert node_folders(store) == ["node=n2"]
    assert all_of(store) == before


def test_a_late_node_is_read_beside_and_folded_in(store: Path) -> None:
    compact(store)
    deliver_node(store, "n0", ("gpu", "steps"))
    before = all_of(store)
    assert list(before) == ["n0", *NODES]
    assert arrived(store) == {"n0", *NODES}
    assert compact(store).nodes == ["n0"]
    assert names_in(store) == sorted([*COMPACTED, "gpu.parquet"])
    assert all_of(store) == before


def test_a_node_that_delivers_again_replaces_what_is_inside(store: Path) -> None:
    compact(store)
    first = all_of(store)
    deliver_node(store, "n2", ("steps",), seed=1)
    second = all_of(store)
    assert second["n2"] != first["n2"]
    assert {**second, "n2": None} == {**first, "n2": None}
    compact(store)
    assert node_folders(store) == []
    assert all_of(store) == second


def test_a_store_opened_before_reads_on(store: Path) -> None:
    opened = open_job(store)
    rows = {node: opened.nodes[node].table("steps") for node in NODES}
    compact(store)
    assert all(opened.nodes[node].table("steps").equals(rows[node]) for node in NODES)


def test_a_folder_replaced_while_it_is_compacted_is_not_removed(store: Path) -> None:
    calls = 0

    def deliver_again() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:  # all is written, nothing in place
            deliver_node(store, "n2", ("steps",), seed=1)

    compact(store, deliver_again)
    assert calls == 2
    assert node_folders(store) == ["node=n2"]
    assert open_job(store).nodes["n2"].meta["kernel"] == "n2-1"
    assert (store / "DONE.n2").exists()
    assert open_job(store).nodes["n2"].table("log").num_rows == 0


def test_no_time_left_changes_nothing(store: Path) -> None:
    before, names = all_of(store), names_in(store)
    with pytest.raises(StoreError, match="no time left"):
        compact(store, deadline_s=time.monotonic() - 1)
    assert names_in(store) == names
    assert all_of(store) == before


def test_who_lost_the_lead_puts_nothing_in_place(store: Path) -> None:
    names = names_in(store)
    claim_leader(store, "n2")
    with pytest.raises(StoreError, match="another node leads"):
        compact(store, lambda: keep_lead(store, "n1"))
    (store / ".leader").unlink()
    assert names_in(store) == names


def test_leading_goes_on_for_as_long_as_it_takes(store: Path) -> None:
    claim_leader(store, "n1")
    os.utime(store / ".leader", (1, 1))
    keep_lead(store, "n1")
    assert (store / ".leader").stat().st_mtime > 1_000_000


def test_a_full_disk_changes_nothing(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = names_in(store)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compact_table.os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        compact(store)
    assert names_in(store) == names


def test_the_command(store: Path) -> None:
    (store / "node=n2" / "notes.txt").touch()
    command = [sys.executable, "-m", "slurm_io.store.compact", str(store)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "notes.txt" in done.stderr
    assert str(store) in done.stderr, "the name people know it by"
    assert node_folders(store) == ["node=n2"]


@pytest.mark.parametrize("again", [False, True], ids=["first", "late node"])
def test_killed_at_any_step(tmp_path: Path, again: bool) -> None:
    """The store reads the same at once, and the next compaction leaves nothing behind."""
    template = make_store(tmp_path / "template", ["n1", "n2"], tables=("steps", "log"), parts=3)
    if again:
        compact(template)
        deliver_node(template, "n0", ("log",))
        deliver_node(template, "n2", ("steps",), seed=1)
    truth, came = all_of(template), arrivals(template)
    copies = tmp_path / "copies"
    copies.mkdir()
    command = [sys.executable, "-m", "tests.store.kill_compact", str(template), str(copies)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY)
    last = int(done.stdout)
    assert last > 40, "it has to be killed in earnest"
    for number in range(1, last + 1):
        copy = copies / f"{number:04d}"
        assert all_of(copy) == truth, number
        assert arrivals(copy) == came, number
        compact(copy)
        assert all_of(copy) == truth, number
        left = set(names_in(copy)) - set(COMPACTED)
        assert {name for name in left if not name.startswith(("DONE.", "node="))} == set(), number


# What lies in a store is its user's, and may be anything.


def test_links_and_odd_files_are_left_where_they_are(store: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "log-0000.parquet").write_bytes((store / "node=n1" / "log-0000.parquet").read_bytes())
    (store / "node=n1" / "log-0000.parquet").unlink()
    (store / "node=n1" / "log-0000.parquet").symlink_to(victim / "log-0000.parquet")
    (store / "node=n2" / "meta.json").unlink()
    (store / "node=n2" / "meta.json").symlink_to(victim / "log-0000.parquet")
    os.mkfifo(store / "node=n10" / "log-0002.parquet")
    (store / "node=link").symlink_to(victim)
    (store / "DONE.link").write_text("{}")
    done = compact(store)
    assert done.nodes == ["n3"]
    assert sorted(done.left) == ["n1", "n10", "n2"]
    assert names_in(victim) == ["log-0000.parquet"]
    assert (store / "node=link").is_symlink()


def test_a_huge_file_is_not_read(store: Path) -> None:
    for name in ("log-0005.parquet", "meta.json"):
        with open(store / "node=n1" / name, "wb") as file:
            file.truncate(3 * 1024**3)
        done = compact(store)
        assert "more than" in done.left["n1"]
    assert (store / "node=n1" / "meta.json").stat().st_size == 3 * 1024**3


def test_a_planted_target_is_replaced_not_followed(store: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    for name in ("log.parquet", "nodes.jsonl"):
        (store / name).symlink_to(victim)
    (store / ".compact-00000000-log.parquet").mkdir()
    before = all_of(store)
    compact(store)
    assert victim.read_text() == "kept"
    assert all_of(store) == before


def test_a_linked_store_is_refused(store: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store)
    with pytest.raises(StoreError, match=r"link"):
        compact(tmp_path / "link")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_somebody_elses_store_is_refused(store: Path) -> None:
    os.chown(store, 64123, 64123)
    with pytest.raises(StoreError, match="not this user's"):
        compact(store)


def edited(store: Path, **change: object) -> None:
    path = store / "compacted.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": []}, "names no nodes"),
        ({"nodes": {"n1": {"done_ns": 1, "rows": {"steps": -1}}}}, "makes no sense"),
        ({"nodes": {"n1": {"rows": {}}}}, "makes no sense"),
        ({"schema": 99}, "newer slurm_io"),
    ],
)
def test_a_damaged_marker_is_named(store: Path, change: dict[str, object], message: str) -> None:
    compact(store)
    edited(store, **change)
    with pytest.raises(StoreError, match=message):
        open_job(store)


def test_a_table_that_lost_rows_is_named(store: Path) -> None:
    compact(store)
    marker = json.loads((store / "compacted.json").read_text())
    marker["nodes"]["n2"]["rows"]["steps"] += 1
    edited(store, nodes=marker["nodes"])
    with pytest.raises(StoreError, match=r"steps\.parquet holds 10 rows of node n2, not the 11"):
        open_job(store).nodes["n2"].table("steps")
    assert open_job(store).nodes["n1"].table("steps").num_rows == 10


@pytest.mark.parametrize("damage", ["removed", "cut", "foreign", "renamed"])
def test_a_damaged_table_is_named(store: Path, damage: str) -> None:
    compact(store)
    path = store / "steps.parquet"
    if damage == "removed":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    elif damage == "foreign":
        pq.write_table(pq.read_table(path), path)
    else:
        shutil.copy(store / "log.parquet", path)
    for node in NODES:
        with pytest.raises(StoreError, match=r"steps\.parquet"):
            open_job(store).nodes[node].table("steps")
    before = names_in(store)
    deliver_node(store, "n0")
    with pytest.raises(StoreError):
        compact(store)
    assert names_in(store) == sorted([*before, "DONE.n0", "node=n0"]), "the rest stays untouched"


@pytest.mark.parametrize(
    "damage", ['{"node": "n1", "meta": 5}', '{"node": "n1", "meta": {"sch', "", None]
)
def test_a_damaged_line_of_the_facts_costs_its_own_nodes(store: Path, damage: str | None) -> None:
    before = open_job(store)
    compact(store)
    path = store / "nodes.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if json.loads(line)["node"] == "n1")
    lines[at : at + 1] = [f"{damage}\n"] if damage is not None else []
    path.write_text("".join(lines))
    after = open_job(store)
    assert sorted(after.nodes) == sorted(before.nodes)
    for name, node in after.nodes.items():
        assert node.table("steps").num_rows == before.nodes[name].table("steps").num_rows
    assert after.nodes["n1"].meta == {}
    assert [entry["file"] for entry in after.nodes["n1"].damage] == ["nodes.jsonl"]
    assert after.nodes["n2"].meta == before.nodes["n2"].meta
    assert after.nodes["n2"].damage == before.nodes["n2"].damage


def test_without_the_facts_file_the_rows_are_read_all_the_same(store: Path) -> None:
    rows = open_job(store).table("steps").num_rows
    compact(store)
    (store / "nodes.jsonl").unlink()
    after = open_job(store)
    assert after.table("steps").num_rows == rows
    assert all("nodes.jsonl" in node.damage[0]["reason"] for node in after.nodes.values())


def test_tables_alone_are_no_store(tmp_path: Path) -> None:
    """Killed before the marker: what lies there is not looked at."""
    (tmp_path / "steps.parquet").write_text("half")
    (tmp_path / "job.json").write_text("{}")
    assert open_job(tmp_path).nodes == {}
    assert STEPS.name in FEW_TABLES
    assert compact_module.compact(tmp_path).nodes == []
