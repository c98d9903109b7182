"""What the GPU says of a wait outweighs what the process thought it waited."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.causes import find_causes
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.picture import Picture, take_picture
from slurm_io.analysis.reports.base import FORMATS
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.analysis.timeline import read_timeline
from tests.analysis.report_shape import problems, range_problems
from tests.analysis.stand_in import (
    EPOCH_NS,
    NS,
    Job,
    Rank,
    StandInStore,
    one_rank,
    train_together,
)


def run(
    idle_s: list[float | None], wait_s: float = 0.08, compute_s: float = 0.05, **settings: Any
) -> StandInStore:
    """300 steps of one rank; the GPU's idle time behind each wait, None where it is not known."""
    rank = one_rank(cuda=True, **settings)
    for k in range(300):
        rank.batch(wait_s, "storage", index=k, gpu_idle_s=idle_s[k % len(idle_s)])
        rank.compute(compute_s)
    return Job([rank]).store()


def picture_of(store: StandInStore) -> Picture:
    return take_picture(store, Thresholds())


@pytest.mark.parametrize("workers", [0, 2])
def test_waits_that_the_gpu_did_not_notice_are_no_loss(workers: int) -> None:
    """60 % of the time in reads, and the queue outlasts each of them."""
    report = analyse_store(run([0.0], workers=workers))
    assert report["verdict"] == "healthy"
    assert report["idle"]["storage"] == {"low": 0.0, "value": 0.0, "high": 0.0}
    assert report["idle"]["data_pipeline"] == 0
    assert report["findings"] == []
    assert "for another 61" in report["verdict_reason"]
    text = " ".join(FORMATS.get("text")(report).split())
    assert "idle 0.0 s of" in text and "queued work hid the rest" in text


@pytest.mark.parametrize("workers", [0, 2])
def test_the_same_waits_with_a_gpu_that_stood_still_are_storage(workers: int) -> None:
    report = analyse_store(run([0.08], workers=workers))
    assert report["verdict"] == "storage"
    assert report["idle"]["storage"]["value"] == pytest.approx(0.08 / 0.13, abs=0.02)
    assert report["findings"][0]["confidence"] == "proven"


def test_what_was_measured_moves_both_ends() -> None:
    measured, bounds = picture_of(run([0.04])), picture_of(run([None]))
    assert bounds.data_storage.low < 0.22 and bounds.data_storage.high > 0.59
    assert measured.data_storage.low > 0.25 and measured.data_storage.high < 0.34


def test_waits_without_a_measurement_keep_their_bounds_beside_measured_ones() -> None:
    """Each second wait is known not to be lost; of the others the GPU may have hidden 50 ms."""
    store = run([0.0, None], workers=0)
    picture, tables = picture_of(store), Tables(store)
    causes = find_causes(tables, read_timeline(tables), Thresholds())
    rows = causes.rows.filter(~causes.rows["first"])
    known = rows.filter(rows["gpu_idle_s"].is_not_null())
    unknown = rows.filter(rows["gpu_idle_s"].is_null())
    assert known["lost_high_s"].sum() == 0
    assert unknown["lost_low_s"].mean() == pytest.approx(0.03, abs=1e-6)
    assert unknown["lost_high_s"].mean() == pytest.approx(0.08, abs=1e-6)
    assert picture.data_storage.low < 0.5 * 0.03 / 0.13 + 0.01
    assert picture.data_storage.high > 0.5 * 0.08 / 0.13 - 0.01
    assert picture.is_unmeasured


def test_the_hand_over_is_lost_only_while_the_gpu_stood_still() -> None:
    """Workers ahead of the loop: 2 ms of hand-over a step, behind which the GPU has work."""
    rank = one_rank(cuda=True)
    for k in range(300):
        rank.batch(0.002, "cpu", index=k, gpu_idle_s=0.0)
        rank.compute(0.02)
    report = analyse_store(Job([rank]).store())
    assert report["verdict"] == "healthy"
    assert report["idle"]["data_pipeline"] == 0


def test_a_slow_rank_whose_gpu_has_work_holds_nobody() -> None:
    """Synchronous ranks: one waits long and notices nothing, the other waits less and stands."""
    ranks = [Rank(i, f"n{i + 1}", 1000 + 10 * i, 0, True) for i in range(2)]
    train_together(ranks, 300, 0.1, lambda rank, k: (0.02, "storage") if rank else (0.06, "cpu"))
    for row in ranks[0].rows:
        row["gpu_idle_ns"] = 0
    for row in ranks[1].rows:
        ranks[1].gpu_waits.append(
            {**{name: row[name] for name in ("ts_ns", "mono_ns", "pid", "rank", "loader", "epoch",
                                             "batch")}, "gpu_idle_ns": row["data_wait_ns"]}
        )  # fmt: skip
    picture = picture_of(Job(ranks).store())
    assert picture.losses.by_cause["cpu"] == 0
    assert picture.losses.by_cause["storage"] == pytest.approx(2 * 299 * 0.02, rel=0.05)


def test_the_coverage_says_how_much_was_measured_and_why_not_more() -> None:
    store = run([0.01, None, None])
    store.nodes["n1"].meta["ranks"][0]["gpu_idle"] = {"dropped": 5, "skipped": 7, "failed": True}
    report = analyse_store(store)
    assert problems(report) == []
    side = report["coverage"]["gpu_side"]
    assert side["measured_share"] == pytest.approx(1 / 3, abs=0.01)
    assert (side["waits"], side["measured"]) == (299, 99)
    [reason] = [one["reason"] for one in report["coverage"]["missing"] if one["source"] == "gpu"]
    for told in ("an error ended it in 1", "5 waits had no free pair", "7 waits fell into"):
        assert told in reason
    assert report["findings"][0]["confidence"] in ("likely", "proven")


def test_without_a_measurement_the_report_says_so() -> None:
    report = analyse_store(run([None]))
    assert report["coverage"]["gpu_side"]["idle_s"] is None
    reasons = [one["reason"] for one in report["coverage"]["missing"] if one["source"] == "gpu"]
    assert any("was not measured behind any" in reason for reason in reasons)


def test_a_job_without_cuda_has_no_gpu_side() -> None:
    rank = one_rank()
    for k in range(300):
        rank.batch(0.08, "storage", index=k)
        rank.compute(0.05)
    assert "gpu_side" not in analyse_store(Job([rank]).store())["coverage"]


def test_a_first_batch_before_cuda_was_in_use_keeps_the_rest_measured() -> None:
    store = run([0.01])
    rows = store.nodes["n1"].tables["steps"]
    rows[1]["cuda"] = False
    picture = picture_of(store)
    assert not picture.is_unmeasured


def with_driver(store: StandInStore, util_share: float, gpus: int = 1) -> StandInStore:
    """Rows of the GPU table, one a second and GPU."""
    store.nodes["n1"].tables["gpu"] = [
        {
            "ts_ns": EPOCH_NS + second * NS, "mono_ns": second * NS, "interval_ns": NS, "gpu": gpu,
            "uuid": f"GPU-{gpu}", "util_share": util_share if gpu == 0 else 1.0,
        }
        for second in range(100, 145)
        for gpu in range(gpus)
    ]  # fmt: skip
    return store


def test_a_driver_that_saw_kernels_meanwhile_takes_the_proof_away() -> None:
    """Idle for 61 % by the events, a kernel resident in 99 % of the time: another stream works."""
    store = with_driver(run([0.08], workers=0), 0.99)
    picture, report = picture_of(store), analyse_store(store)
    assert report["verdict"] == "not-proven"
    assert "the driver saw the GPUs at work meanwhile" in report["verdict_reason"]
    assert {finding["confidence"] for finding in report["findings"]} == {"not-proven"}
    assert picture.data_storage.low < 0.03
    assert picture.data_storage.value > 0.5
    assert picture.is_unmeasured
    side = picture.gpu_side
    assert side is not None and "the driver saw more work on the GPUs of 1" in side.text


@pytest.mark.parametrize(("util_share", "gpus"), [(0.39, 1), (0.0, 1), (0.5, 1), (0.99, 2)])
def test_a_driver_that_agrees_or_tells_of_unknown_gpus_changes_nothing(
    util_share: float, gpus: int
) -> None:
    picture = picture_of(with_driver(run([0.08], workers=0), util_share, gpus))
    assert picture.data_storage.low > 0.5
    assert picture.storage_confidence == "proven"


def test_the_drivers_word_counts_for_the_ranks_own_gpu_only() -> None:
    store = with_driver(run([0.08], workers=0), 0.39, gpus=2)
    ranks = {"0": {"gpus": ["GPU-0"], "by": "compute process"}}
    store.nodes["n1"].meta["sources"]["gpu"] = {"state": "on", "ranks": ranks}
    assert picture_of(store).storage_confidence == "proven"
    ranks["0"]["gpus"] = ["GPU-1"]
    assert picture_of(store).storage_confidence == "not-proven"


@pytest.mark.parametrize("gpu_idle_s", [0.001, None])
def test_copies_to_the_gpu_are_no_data_wait(gpu_idle_s: float | None) -> None:
    """A loop that copies for 60 ms of each step, from pageable memory, while the workers read ahead
    from slow storage: the batch is there when it is asked for, so nobody waits for storage."""
    rank = one_rank(cuda=True)
    for k in range(300):
        rank.batch(0.001, "pipe", index=k, gpu_idle_s=gpu_idle_s)
        rank._spend(0.06, "step", None, "storage")
        rank.compute(0.04)
    store = Job([rank]).store()
    store.nodes["n1"].tables["gpu"] = [
        {
            "ts_ns": EPOCH_NS + second * NS, "mono_ns": second * NS, "interval_ns": NS, "gpu": 0,
            "util_share": 0.4, "sm_active_share": 0.3, "pcie_rx_mib_s": 11_000.0,
        }
        for second in range(100, 130)
    ]  # fmt: skip
    report = analyse_store(store)
    assert report["verdict"] == "healthy", report["verdict_reason"]
    assert report["idle"]["data_storage"] == 0
    assert report["idle"]["storage"]["high"] < 0.02
    assert not {"F01", "F07", "F16"} & {finding["rule"] for finding in report["findings"]}


NONSENSE = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 1, 80_000_000, 10**12])
)


@settings(max_examples=8, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(-3, 70), NONSENSE, st.sampled_from([1000, 7]), st.booleans()),
        max_size=80,
    )
)
def test_any_rows_give_an_ordered_report(rows: list[tuple[int, int | None, int, bool]]) -> None:
    """Rows twice, of waits that do not exist, of other processes, absurd: no share leaves 0..1."""
    rank = one_rank(cuda=True)
    for k in range(60):
        rank.batch(0.08, "storage", index=k)
        rank.compute(0.05)
    store = Job([rank]).store()
    steps = {row["batch"]: row for row in store.nodes["n1"].tables["steps"]}
    names = ("ts_ns", "mono_ns", "pid", "rank", "loader", "epoch", "batch")
    for batch, idle_ns, pid, exact in rows:
        row = {name: steps.get(batch, steps[0])[name] for name in names}
        idle = {"gpu_idle_ns": 0 if idle_ns is None else idle_ns}
        moved = row["mono_ns"] + (not exact)
        if batch < 0:
            moved = (2**63 - 1) * (1 if exact else -1)
        store.nodes["n1"].tables["gpu_waits"].append(
            row | {"batch": batch, "pid": pid, "mono_ns": moved} | idle
        )
    report = analyse_store(store)
    assert problems(report) == []
    assert range_problems(report) == []
