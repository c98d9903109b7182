"""The state of a spare, and why: one test a state, and which comes first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurm_io.reservation.model import NodeSays
from slurm_io.reservation.node_report.says import no_answer, parse_says
from slurm_io.reservation.pool import read_pool
from slurm_io.reservation.status.judge import judge
from slurm_io.slurm.infos import JobInfo, NodeInfo, Reason
from tests.reservation.pools import (
    C1,
    C2,
    NODES,
    FakeSlurm,
    config_of,
    data_behind,
    filler,
    node,
    report,
    training,
)


def says(**values: Any) -> NodeSays:
    import json

    return parse_says("n4", 1000.0, json.dumps(report(**values)).encode())


def judged(
    answer: NodeSays | None,
    info: NodeInfo | None = None,
    jobs: tuple[JobInfo, ...] = (),
    wanted: str | None = C1,
    **section: Any,
) -> tuple[str, str]:
    nodes = (*map(node, NODES[:3]), info or node("n4"))
    slurm = FakeSlurm(jobs_now=(training(), *jobs), nodes_now=nodes)
    pool = read_pool(slurm, config_of(**section), "train")
    return judge(pool, "n4", answer, wanted)


def test_ready_with_what_was_proven() -> None:
    assert judged(says()) == ("ready", "verified to level 4, 60 min ago")


def test_ready_with_a_filler_job_on_it() -> None:
    assert judged(says(), jobs=(filler(),)) == (
        "ready",
        "verified to level 4, 60 min ago; filler job 8 gives way",
    )


def test_busy_with_a_job_that_does_not_give_way() -> None:
    state, reason = judged(says(), jobs=(filler(qos="normal", reservation=None, user="eve"),))
    assert (state, reason) == ("busy", "job 8 of eve runs there and does not give way")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (data_behind(0, content_id=C2), f"it holds version {C2}, the run {C1}"),
        (data_behind(0, state="degraded"), "its copy is degraded"),
        (data_behind(0, state="failed", problem="3 bad files"), "its copy is failed: 3 bad files"),
        (data_behind(0, state="absent", content_id=None), "it has no verified copy of the dataset"),
        (data_behind(2_500_000_000), "2.5 GB in 3 files are missing"),
        (data_behind(0, level=0), "its copy was never verified"),
        (data_behind(0, problem="made on another machine"), "made on another machine"),
    ],
)
def test_stale_copies(data: dict[str, Any], why: str) -> None:
    assert judged(says(data=data)) == ("stale", why)


@pytest.mark.parametrize("state", ["copying", "copied", "verifying"])
def test_syncing(state: str) -> None:
    found = judged(says(data=data_behind(5_000_000_000_000, state=state, content_id=C2)))
    assert found == ("syncing", f"its copy is {state}, 5 TB missing")


def test_without_a_known_version_of_the_run_the_node_s_own_view_counts() -> None:
    assert judged(says(), wanted=None)[0] == "ready"
    assert judged(says(data=data_behind(0, wanted_id=C2)), wanted=None)[0] == "stale"
    assert judged(says(data=data_behind(0, wanted_id=None)), wanted=None)[0] == "ready"


def test_a_failed_check_makes_it_unhealthy_and_a_degraded_one_does_not() -> None:
    failed = says(health={"arrays": ["FAIL", "md0 lost sdb"], "mounts": ["OK", ""]})
    assert judged(failed) == ("unhealthy", "arrays: md0 lost sdb")
    assert judged(says(health={"arrays": ["DEGRADED", "md0 resyncs"]}))[0] == "ready"


@pytest.mark.parametrize(
    ("info", "words"),
    [
        (node("n4", base="DOWN", reason=Reason("Not responding")), "DOWN (Not responding)"),
        (node("n4", flags=("DRAIN",), reason=Reason("NHC: disk")), "drained (NHC: disk)"),
        (node("n4", flags=("NOT_RESPONDING",)), "does not answer"),
    ],
)
def test_what_slurm_says_counts_first(info: NodeInfo, words: str) -> None:
    state, reason = judged(says(), info)
    assert state == "unhealthy"
    assert words in reason


def test_no_answer_is_unknown_and_never_well() -> None:
    assert judged(None) == ("unknown", "it was not asked")
    assert judged(no_answer("n4", 0.0, "no job started")) == ("unknown", "no job started")
    blank = replace(says(), data=None, unread={"data": "no answer within 20 s"})
    assert judged(blank) == (
        "unknown",
        "its copy could not be looked at: no answer within 20 s",
    )


def test_without_a_dataset_only_health_and_jobs_count() -> None:
    assert judged(says(data=None), dataset="") == ("ready", "well")
