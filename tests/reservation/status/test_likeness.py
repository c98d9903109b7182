"""The run a spare stands by for: its version, and whether the spare is like its nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slurm_io.reservation.model import NodeSays
from slurm_io.reservation.node_report.says import no_answer, parse_says
from slurm_io.reservation.pool import read_pool
from slurm_io.reservation.status.likeness import drift_of, switch_of
from slurm_io.reservation.status.model import Drift
from slurm_io.reservation.status.run import Run, run_of
from slurm_io.slurm.infos import JobInfo
from slurm_io.slurm.topology import Topology
from tests.reservation.pools import (
    C1,
    C2,
    NODES,
    FakeSlurm,
    config_of,
    data_behind,
    report,
    training,
)


def says(name: str = "n4", **values: Any) -> NodeSays:
    return parse_says(name, 0.0, json.dumps(report(**values)).encode())


def run(
    answers: dict[str, NodeSays] | None = None, job: JobInfo | None = None, **section: Any
) -> Run:
    config = config_of(**section)
    pool = read_pool(FakeSlurm(jobs_now=(job or training(),)), config, "train")
    found = {name: says(name) for name in NODES} if answers is None else answers
    return run_of(pool, config, found)


def test_the_job_s_own_word_on_the_version_counts_most() -> None:
    found = run(job=training(comment=f"slurm-io: dataset=c4@{C2}"), dataset=f"c4@{C1}")
    assert (found.content_id, found.base) == (C2, "the job asks for it")


def test_then_the_section_then_what_the_nodes_hold_then_the_manifest() -> None:
    assert run(dataset=f"c4@{C1}").base == "[reservation.train]"
    holds = {name: says(name, data=data_behind(0, content_id=C2)) for name in NODES}
    assert run(holds, dataset="c4").content_id == C2
    spare_only = {"n4": says(data=data_behind(0, content_id=C2, wanted_id=C1))}
    found = run(spare_only, dataset="c4")
    assert (found.content_id, found.base) == (C1, "the manifest")
    assert run({}, dataset="c4").content_id is None


@pytest.mark.parametrize(
    "comment", ["slurm-io: dataset=other@c1-x", "slurm-io: price", "hello", "slurm-io: dataset=c4"]
)
def test_other_comments_and_nonsense_are_no_word_on_it(comment: str) -> None:
    assert run(job=training(comment=comment), dataset=f"c4@{C1}").base == "[reservation.train]"


def test_what_most_nodes_of_the_run_have_is_usual() -> None:
    old = {**report()["drift"], "kernel": "5.15"}
    answers = {"n1": says("n1"), "n2": says("n2"), "n3": says("n3", drift=old)}
    assert run(answers).usual["kernel"] == "6.1.0-28"


def test_drift_names_both_sides_and_what_was_not_compared() -> None:
    mine = {**report()["drift"], "driver": "nvidia 550.1", "kernel": None}
    found, text = drift_of(says(drift=mine), run())
    assert found == (Drift("driver", "nvidia 550.1", "nvidia 570.86.10"),)
    assert text == "compared with 3 of 3 nodes; not compared: kernel"


def test_nothing_to_compare_is_no_likeness() -> None:
    assert drift_of(no_answer("n4", 0.0, "silent"), run()) == (
        (),
        "not compared: it gave no answer",
    )
    assert drift_of(says(), run({}))[1] == "not compared: no node of the run gave an answer"


def test_the_same_switch_another_one_or_unknown() -> None:
    leaf = {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2", "n4": "leaf1", "n5": "leaf9"}
    here, topology = run(), Topology(leaf)
    assert switch_of("n4", here, topology, "")[0] is True
    same, text = switch_of("n5", here, topology, "")
    assert (same, text) == (False, "on leaf9; most of the run is on leaf1")
    assert switch_of("n6", here, topology, "")[0] is None
    assert switch_of("n4", here, None, "no topology") == (None, "no topology")
    assert switch_of("n4", run(job=training(state="PENDING", nodes=())), topology, "")[0] is None
