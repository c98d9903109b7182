"""Properties that hold for every job, however odd, and for every damaged store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.reports.base import FORMATS
from slurm_io.analysis.shares import wilson
from slurm_io.errors import StoreError
from tests.analysis.report_shape import problems, range_problems
from tests.analysis.stand_in import Job, Rank, StandInNode, StandInStore, one_rank, train

CAUSES = st.sampled_from(["storage", "net", "cpu", "pipe", "sleep", "lock", "other", "unknown"])
BATCHES = st.tuples(st.floats(0, 3), CAUSES, st.floats(0, 1), st.booleans(), st.integers(0, 9))


def check(store: Any) -> dict[str, Any]:
    report = analyse_store(store)
    assert problems(report) == []
    assert range_problems(report) == []
    for name in FORMATS.discover():
        assert FORMATS.get(name)(report)
    return report


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    batches=st.lists(BATCHES, max_size=60),
    workers=st.sampled_from([0, 2]),
    cuda=st.booleans(),
    ranks=st.integers(1, 3),
    waits=st.booleans(),
    gpus=st.sampled_from([None, 0, 1, 8]),
)
def test_shape_and_order_hold_for_any_run(
    batches: list[tuple[float, str, float, bool, int]],
    workers: int,
    cuda: bool,
    ranks: int,
    waits: bool,
    gpus: int | None,
) -> None:
    everybody = [Rank(n, f"n{n}", 1000 + 10 * n, workers, cuda) for n in range(ranks)]
    for rank in everybody:
        for k, (wait_s, cause, compute_s, step, what) in enumerate(batches):
            measured = wait_s / 2 if what == 0 else None
            rank.batch(wait_s, cause, index=k, gpu_idle_s=measured, recorded=what != 1)
            rank.compute(compute_s, step)
            if what == 2:
                rank.event("ckpt_save", compute_s, bytes=k, path="/x/y.pt")
            if what == 3:
                rank.event("gc", compute_s)
            if what == 4:
                rank.event("epoch_start", wait_s)
    check(Job(everybody, gpus_on_node=gpus, waits=waits).store())


@given(share=st.floats(0, 1), samples=st.floats(0, 1e7))
def test_the_interval_always_holds_the_share(share: float, samples: float) -> None:
    low, high = wilson(share, samples, 1.96)
    assert 0 <= low <= share <= high <= 1


def test_more_samples_narrow_the_interval() -> None:
    few, many = wilson(0.3, 30, 1.96), wilson(0.3, 3000, 1.96)
    assert few[0] < many[0] < 0.3 < many[1] < few[1]


def test_a_store_without_nodes_says_what_is_missing() -> None:
    report = check(StandInStore(None, {}, ("n1",)))
    assert report["verdict"] == "not-proven"
    sources = {one["source"] for one in report["coverage"]["missing"]}
    assert {"node n1", "hook", "rule F01"} <= sources
    assert report["idle"]["storage"]["value"] is None


def test_a_node_without_anything_is_not_proven() -> None:
    report = check(StandInStore(None, {"n1": StandInNode("n1", {})}, ("n1",)))
    assert report["verdict"] == "not-proven"
    assert report["coverage"]["hook"] == "off"
    [why] = [one["reason"] for one in report["coverage"]["missing"] if one["source"] == "node n1"]
    assert "no room for its sampler" in why


def test_a_node_that_lost_its_meta_file_only_is_damaged() -> None:
    store = Job([train(one_rank(), 300, 0.05, lambda k: (0.05, "storage"))]).store()
    store.nodes["n1"].meta.clear()
    store.nodes["n1"].self_cost = {"cpu_s": 1.0}
    report = check(store)
    assert {"source": "node n1", "reason": "meta.json is missing or damaged"} in report["coverage"][
        "missing"
    ]


def test_a_missing_node_is_named_and_the_base_says_so() -> None:
    store = Job([train(one_rank(), 300, 0.05, lambda k: (0.05, "storage"))]).store()
    store.nodes_expected = ("n1", "n2")
    report = check(store)
    assert report["verdict"] == "storage"
    assert "of 1 of 2 nodes" in report["idle"]["base"]
    assert any(one["source"] == "node n2" for one in report["coverage"]["missing"])
    assert "node n2: delivered nothing" in FORMATS.get("text")(report)


def test_a_node_whose_folder_cannot_be_read_has_not_failed() -> None:
    store = Job([train(one_rank(), 300, 0.05, lambda k: (0.05, "storage"))]).store()
    store.nodes_expected = ("n1", "n2")
    why = {"file": "node=n2", "node": "n2", "reason": "cannot list node=n2", "missing": "its rows"}
    store.damage = [why]
    told = [one["reason"] for one in check(store)["coverage"]["missing"]]
    assert "damaged: cannot list node=n2; its rows" in told
    assert not any("delivered nothing" in reason for reason in told)


NONSENSE: list[Any] = [None, "x", [], [1], {"a": {}}, -5, 2**70, 1.5, True]


@pytest.mark.parametrize("key", ["start_ts_ns", "end_ts_ns", "clock", "sources", "ranks",
                                 "workers_seen", "clean_end", "end_reason"])  # fmt: skip
@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_nonsense_in_meta_costs_its_own_line_only(key: str, value: Any) -> None:
    store = Job([train(one_rank(), 60, 0.05, lambda k: (0.1, "storage"))]).store()
    store.nodes["n1"].meta[key] = value
    assert check(store)["verdict"] == "storage"


@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_nonsense_in_self_json_and_checks(value: Any) -> None:
    store = Job([train(one_rank(), 60, 0.05, lambda k: (0.1, "storage"))]).store()
    names = ["cpu_s", "wall_s", "rss_peak_bytes", "governor", "bytes_written", "dropped_rows"]
    cost = dict.fromkeys(names, value)
    store.nodes["n1"].self_cost = cost
    store.nodes["n1"].checks = {"checks": value}
    store.extra = {"exit_code": value, "state": None}
    assert check(store)["verdict"] == "storage"


def test_an_unreadable_table_is_named() -> None:
    class Broken(StandInNode):
        def table(self, name: str, columns: Sequence[str] | None = None, every: int = 1) -> Any:
            if name == "waits":
                raise StoreError("waits-0003.parquet is cut off")
            return super().table(name, columns)

    store = Job([train(one_rank(), 200, 0.05, lambda k: (0.05, "storage"))]).store()
    whole = store.nodes["n1"]
    store.nodes["n1"] = Broken(whole.node, whole.meta, whole.tables)
    report = check(store)
    assert report["verdict"] == "not-proven"
    assert {"source": "waits of n1", "reason": "waits-0003.parquet is cut off"} in report[
        "coverage"
    ]["missing"]


def test_absurd_times_do_not_run_away() -> None:
    """A wait of 292 years, and rows at both ends of time: bounded work, a report nonetheless."""
    store = Job([train(one_rank(), 200, 0.05, lambda k: (0.05, "storage"))]).store()
    rows = store.nodes["n1"].tables["steps"]
    rows.append({**rows[-1], "batch": 900, "mono_ns": 2**62, "data_wait_ns": 2**63 - 1})
    rows.append({**rows[-1], "batch": 901, "mono_ns": -(2**62), "data_wait_ns": 2**63 - 1})
    rows.append({**rows[5], "batch": 902, "data_wait_ns": -7})
    check(store)
