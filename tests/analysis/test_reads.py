"""Bytes asked for and bytes from storage, pass by pass, on tables whose answer is known."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import polars as pl
import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.read_counts import share_out
from slurm_io.analysis.reads import Reads, find_reads
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.passes import COLD, MIB, WARM, Pass, passes_job
from tests.analysis.stand_in import EPOCH_NS, NS, StandInNode, StandInStore


def reads_of(store: StandInStore) -> Reads:
    found = take_picture(store, Thresholds()).reads
    assert found is not None
    return found


def test_each_pass_has_its_own_bytes() -> None:
    """100 batches of 2 MiB each; the first batch's wait is start-up and its pass a bit shorter."""
    reads = reads_of(passes_job([COLD, WARM, WARM]))
    assert reads.kind == "epoch"
    assert [one.epochs for one in reads.slices] == [(0, 0), (1, 1), (2, 2)]
    cold, warm, last = reads.slices
    assert cold.asked_bytes == pytest.approx(200 * MIB, rel=0.03)
    assert cold.storage.low == cold.storage.high == pytest.approx(cold.asked_bytes, rel=0.01)
    assert cold.held_high == pytest.approx(0, abs=0.01)
    assert warm.asked_bytes == pytest.approx(200 * MIB, rel=0.03)
    assert last.storage.high == 0
    assert last.held_low == last.held_high == 1.0


def test_a_row_across_a_border_is_shared_out_by_time() -> None:
    pieces = pl.DataFrame(
        [(0, 0, 0, 4 * NS), (0, 1, 4 * NS, 9 * NS), (0, 1, 12 * NS, 20 * NS)],
        schema={"owner": pl.Int32, "slice": pl.Int32, "start": pl.Int64, "end": pl.Int64},
        orient="row",
    )
    ends = [2.0, 4.25, 10.0, 13.0, 13.0, 25.0]  # two alike rows are two processes
    rows = pl.DataFrame(
        {"owner": [0] * 6, "mono_ns": [round(at * NS) for at in ends],
         "interval_ns": [NS, NS, 2 * NS, 2 * NS, 2 * NS, NS]},
        schema_overrides={"owner": pl.Int32},
    )  # fmt: skip
    shared = share_out(rows, pieces).select("mono_ns", "slice", "weight").sort("mono_ns", "slice")
    assert shared.rows() == [
        (2 * NS, 0, 1.0),
        (round(4.25 * NS), 0, 0.75),
        (round(4.25 * NS), 1, 0.25),
        (10 * NS, 1, 0.5),
        (13 * NS, 1, 0.5),
        (13 * NS, 1, 0.5),
    ]


def test_workers_that_live_for_one_pass_lose_their_first_seconds_and_that_is_said() -> None:
    reads = reads_of(passes_job([COLD, WARM, WARM], restarted=True, unseen_s=2))
    shares = [one.seen_share for one in reads.slices]
    assert shares[0] == pytest.approx(0.9, abs=0.03)
    assert shares[1] == pytest.approx(0.8, abs=0.06)
    report = analyse_store(passes_job([COLD, WARM, WARM], restarted=True, unseen_s=2))
    assert any("sums are low" in one for one in report["reads"]["limits"])


def test_a_loader_that_did_not_tell_its_workers_has_no_seen_share() -> None:
    store = passes_job([COLD, WARM])
    store.nodes["n1"].meta["loaders"] = []
    assert [one.seen_share for one in reads_of(store).slices] == [None, None]


def test_refused_counters_are_unknown_and_not_zero() -> None:
    refused = [dataclasses.replace(one, asked=None, read=None) for one in (COLD, WARM)]
    reads = reads_of(passes_job(refused))
    assert [one.asked_bytes for one in reads.slices] == [None, None]
    assert [one.storage.low for one in reads.slices] == [None, None]
    assert "/proc/PID/io" in reads.slices[0].why
    assert "reads" not in analyse_store(passes_job(refused))


def test_a_job_without_process_rows_has_no_reads() -> None:
    store = passes_job([COLD, WARM])
    store.nodes["n1"].tables["process"] = []
    assert take_picture(store, Thresholds()).reads is None


def test_what_a_rank_with_workers_reads_from_their_pipes_is_not_asked_for_twice() -> None:
    store = passes_job([COLD, WARM])
    node = store.nodes["n1"]
    pipes = [
        {**row, "pid": 1000, "role": "rank", "rchar_bytes": 500 * MIB, "read_bytes": 0}
        for row in node.tables["process"]
    ]
    alone = [one.asked_bytes for one in reads_of(store).slices]
    node.tables["process"] += pipes
    assert [one.asked_bytes for one in reads_of(store).slices] == alone


def test_evaluation_is_left_out() -> None:
    """Reads of another loader's batches between two passes belong to no pass."""
    plain = reads_of(passes_job([COLD, WARM]))
    store = passes_job([COLD, WARM])
    node = store.nodes["n1"]
    first = plain.slices[0]
    border = (plain.slices[1].start_ns - EPOCH_NS) // NS
    # A load of a checkpoint inside the cold pass, from second 5 to 10 of it.
    begun = 105 * NS
    a_second = 2 * max(row["rchar_bytes"] for row in node.tables["process"][:10])
    node.tables["events"].append(
        {"ts_ns": EPOCH_NS + begun, "mono_ns": begun, "end_mono_ns": begun + 5 * NS, "pid": 1000,
         "rank": 0, "kind": "load", "blocking": True, "failed": False, "step": 10}
    )  # fmt: skip
    with_load = reads_of(store).slices[0]
    assert border > 110
    assert first.asked_bytes is not None
    assert with_load.asked_bytes is not None
    assert first.asked_bytes - with_load.asked_bytes == pytest.approx(5 * a_second, rel=0.02)


def test_one_long_pass_is_cut_into_equal_parts() -> None:
    reads = reads_of(passes_job([COLD], batches=400))
    assert reads.kind == "time"
    assert len(reads.slices) == 4
    spans = [one.span_s for one in reads.slices]
    assert max(spans) - min(spans) < 0.01
    asked = [one.asked_bytes or 0 for one in reads.slices]
    assert max(asked) == pytest.approx(min(asked), rel=0.02)


def test_without_a_hook_the_parts_are_of_the_time_that_was_seen() -> None:
    store = passes_job([COLD, WARM])
    node = store.nodes["n1"]
    node.tables["steps"], node.tables["events"] = [], []
    reads = reads_of(store)
    assert reads.kind == "time"
    assert reads.readers == "ranks and workers"
    assert reads.slices[0].wait_per_batch_s is None
    total = sum(one.asked_bytes or 0 for one in reads.slices)
    rows = node.tables["process"]
    assert total == pytest.approx(sum(row["rchar_bytes"] for row in rows), rel=0.001)
    first, last = reads.slices[0], reads.slices[-1]
    assert (first.storage.low or 0) > 0
    assert last.storage.low == 0


def test_many_passes_are_put_together_and_the_first_stays_alone() -> None:
    reads = reads_of(passes_job([WARM] * 40, batches=12, compute_s=0.02))
    assert len(reads.slices) == 16
    assert reads.slices[0].epochs == (0, 0)
    assert reads.slices[-1].epochs is not None
    assert reads.slices[-1].epochs[1] == 39
    edges = [one.epochs for one in reads.slices if one.epochs is not None]
    assert all(after[0] == before[1] + 1 for before, after in pairwise(edges))


def test_mapped_files_have_no_share_held_in_memory() -> None:
    store = passes_job([dataclasses.replace(COLD, asked=1000, majflt=200), WARM])
    for row in store.nodes["n1"].tables["waits"]:
        if row.get("n_storage"):
            row["n_fault"] = row["n_storage"]
    cold = reads_of(store).slices[0]
    assert cold.held_low is cold.held_high is None
    assert "mapped" in cold.why
    assert cold.storage.low == pytest.approx(200 * MIB, rel=0.05)
    assert cold.majflt == pytest.approx(100 * 200, rel=0.05)


def client_row(second: int, moved: int | None, **more: Any) -> dict[str, Any]:
    return {
        "ts_ns": EPOCH_NS + second * NS, "mono_ns": second * NS, "interval_ns": NS,
        "mount": "/scratch", "op_class": "read", "ops": 10, "bytes": moved, **more,
    }  # fmt: skip


SOURCES = [
    ("nfs4", "mountstats", "nfs"),
    ("lustre", "osc+mdc", "lustre"),
    ("ceph", "ceph debugfs", "ceph"),
    ("fuse.juicefs", "juicefs .stats", "juicefs"),
]


@pytest.mark.parametrize(("fstype", "source", "collector"), SOURCES)
def test_the_wire_bounds_what_the_kernel_may_not_count(
    fstype: str, source: str, collector: str
) -> None:
    silent = [dataclasses.replace(COLD, read=0), WARM]
    store = passes_job(silent, fstype=fstype)
    node = store.nodes["n1"]
    node.meta["sources"][collector] = {"state": "on"}
    node.tables["fsclient"] = [
        client_row(second, 10 * MIB, fstype=fstype, source=source) for second in range(101, 120)
    ]
    cold, warm = reads_of(store).slices
    assert cold.storage.low == 0
    assert cold.storage.high == pytest.approx(19 * 10 * MIB, rel=0.03)
    assert cold.client_bytes == cold.storage.high
    assert warm.storage.high == 0  # no rows: its client is on and moved nothing
    assert warm.held_low == 1.0


@pytest.mark.parametrize(("fstype", "source", "collector"), SOURCES[:3])
def test_bytes_counted_twice_are_not_added(fstype: str, source: str, collector: str) -> None:
    store = passes_job([COLD, WARM], fstype=fstype)
    store.nodes["n1"].tables["fsclient"] = [
        client_row(second, 10 * MIB, fstype=fstype, source=source) for second in range(101, 120)
    ]
    cold = reads_of(store).slices[0]
    assert cold.storage.high == pytest.approx(cold.storage.low, rel=0.05)


@pytest.mark.parametrize("fstype", ["wekafs", "gpfs", "fuse.sshfs", "cifs", "nfs4", "lustre"])
def test_a_client_that_nobody_counts_leaves_the_upper_bound_open(fstype: str) -> None:
    """And application bytes (llite, mmpmon) are no bytes from storage."""
    store = passes_job([dataclasses.replace(COLD, read=0), WARM], fstype=fstype)
    store.nodes["n1"].tables["fsclient"] = [
        client_row(second, 10 * MIB, fstype=fstype, source=source)
        for second in range(101, 120)
        for source in ("llite", "mmpmon", "wekafs")
    ]
    cold, warm = reads_of(store).slices
    assert cold.storage.high is None
    assert cold.held_low is None
    assert "/scratch" in cold.why
    assert warm.storage.high is None  # never "all from memory" without a counter
    text = analyse_store(store)["reads"]["slices"][1]["text"]
    assert "an unknown part from storage" in text


def test_zfs_counts_its_own_caches_hits() -> None:
    cold = reads_of(passes_job([COLD, WARM], fstype="zfs")).slices[0]
    assert cold.storage.low == 0
    assert cold.storage.high == pytest.approx(200 * MIB, rel=0.05)


def test_where_nobody_waited_all_mounts_of_the_node_decide() -> None:
    quiet = [Pass(), Pass()]
    local = reads_of(passes_job(quiet)).slices[0]
    assert local.storage.high == 0
    store = passes_job(quiet)
    store.nodes["n1"].meta["mounts"].append({"mount": "/gpfs", "fstype": "gpfs"})
    assert reads_of(store).slices[0].storage.high is None
    store.nodes["n1"].meta["mounts"] = []
    assert reads_of(store).slices[0].storage.high is None


def test_damaged_stores_cost_their_own_values() -> None:
    store = passes_job([COLD, WARM])
    node = store.nodes["n1"]
    node.meta["loaders"] = {"pid": 1}
    node.meta["mounts"] = "all"
    node.meta["clock"] = None
    node.tables["process"] += [
        {"ts_ns": 1, "mono_ns": 1, "interval_ns": 2**62, "pid": 1, "role": "worker", "rank": 0},
        {"ts_ns": 1, "mono_ns": 110 * NS, "interval_ns": 0, "pid": 1, "role": "worker", "rank": 0},
    ]
    assert reads_of(store).slices[0].asked_bytes == pytest.approx(200 * MIB, rel=0.05)


def test_a_store_without_nodes_has_no_reads() -> None:
    store = StandInStore(None, {"n1": StandInNode("n1", {})}, ("n1",))
    picture = take_picture(store, Thresholds())
    assert picture.reads is None
    assert find_reads(picture.tables, picture.timeline, picture.causes, Thresholds()) is None
