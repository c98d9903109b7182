"""An attach without a hook: what was waited for is told, what training lost is not."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.reports.base import FORMATS
from slurm_io.store.schema import WAIT_CLASSES
from tests.analysis.report_shape import SHAPE, problems
from tests.analysis.stand_in import EPOCH_NS, NS, Job, StandInNode, StandInStore, one_rank, train

ATTACHED = {"attached": {"duration_s": 60}, "state": "RUNNING"}


def waits(node: StandInNode, second: int, role: str, processes: int, **counts: Any) -> None:
    """One row of the waits table."""
    place = {name: counts.pop(name, None) for name in ("rank", "mount", "fstype", "path")}
    row = {f"n_{name}": counts.get(name, 0) for name in WAIT_CLASSES}
    node.tables["waits"].append(
        {
            "ts_ns": EPOCH_NS + second * NS, "mono_ns": second * NS, "interval_ns": NS,
            "role": role, "phase": "none", "loader": None, "passes": 20, "processes": processes,
            "n_fault": 0, **place, **row,
        }
    )  # fmt: skip


def told(rank: int) -> dict[str, Any]:
    return {"rank": rank, "pid": 100 + rank, "starttime": 1, "told_by": "environ"}


@pytest.fixture
def store() -> StandInStore:
    nodes = {
        name: StandInNode(name, {"ranks": [told(rank)], "sources": {"waits": {"state": "on"}}})
        for rank, name in enumerate(("n1", "n2"))
    }
    for second in (1, 2):
        for node in nodes.values():
            waits(node, second, "rank", 1, rank=0, cpu=12, pipe=8)
            waits(node, second, "worker", 4, rank=0, cpu=20, storage=10)
            waits(
                node, second, "worker", 4, rank=0, storage=50, mount="/data", fstype="lustre",
                path="/data/x",
            )  # fmt: skip
    return StandInStore(None, nodes, ("n1", "n2"), dict(ATTACHED))


def test_shares_are_of_all_samples_of_the_role_and_mounts_too(store: StandInStore) -> None:
    report = analyse_store(store)
    outside = report["outside"]
    assert outside["base"] == "wait samples of the role's processes"
    rank, worker = outside["seen"]
    assert (rank["role"], rank["processes"], rank["samples"]) == ("rank", 2, 80)
    assert rank["shares"] == {"cpu": 0.6, "pipe": 0.4}
    assert (worker["processes"], worker["samples"]) == (8, 320)
    assert worker["shares"] == {"storage": 0.75, "cpu": 0.25}
    assert worker["mounts"] == [{"mount": "/data", "fstype": "lustre", "share": 0.625}]


def test_nothing_more_is_claimed_than_what_was_seen(store: StandInStore) -> None:
    report = analyse_store(store)
    assert (report["verdict"], report["findings"]) == ("not-proven", [])
    assert report["idle"]["storage"]["value"] is None
    coverage = report["coverage"]
    assert (coverage["hook"], coverage["waits"], coverage["ranks_seen"]) == ("off", "on", 2)
    assert report["job"]["ranks"] == 2
    assert {each["source"] for each in coverage["missing"]} >= {"hook", "rule F01"}
    del report["outside"]
    assert problems(report, SHAPE) == []


def test_the_text_names_class_base_and_mount(store: StandInStore) -> None:
    text = FORMATS.get("text")(analyse_store(store))
    assert "Seen from outside: what they waited for, which is not what training lost" in text
    assert "2 ranks: cpu 60.0%, pipe 40.0% of 80 samples" in text
    assert "8 workers: storage 75.0%, cpu 25.0% of 320 samples; storage: /data" in text


def test_a_job_that_was_not_attached_to_has_no_outside(store: StandInStore) -> None:
    store.extra = {}
    report = analyse_store(store)
    assert "outside" not in report
    assert report["coverage"]["waits"] == "off"


def test_where_a_hook_timed_batches_it_speaks_and_start_up_is_not_known() -> None:
    rank = one_rank()
    train(rank, 200, 0.1, lambda k: (0.05, "storage"))
    store = Job([rank]).store()
    seen_from_the_start = analyse_store(store)
    assert seen_from_the_start["time"]["startup_s"] is not None
    store.extra = dict(ATTACHED)
    report = analyse_store(store)
    assert "outside" not in report
    assert report["time"]["startup_s"] is None
    assert report["idle"]["startup_share"] is None
    assert report["verdict"] == seen_from_the_start["verdict"]


def test_an_attach_that_saw_no_process_says_so() -> None:
    empty = StandInStore(None, {"n1": StandInNode("n1", {})}, ("n1",), dict(ATTACHED))
    report = analyse_store(empty)
    assert report["outside"]["seen"] == []
    assert report["coverage"]["waits"] == "off"
    assert "Seen from outside" not in FORMATS.get("text")(report)
