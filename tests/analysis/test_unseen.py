"""Processes that could not be looked at are told in the report, with numbers."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.reports.base import FORMATS
from slurm_io.analysis.unseen import unseen
from tests.analysis.stand_in import StandInNode, StandInStore


def store(**nodes: dict[str, Any]) -> StandInStore:
    found = {name: StandInNode(name, meta) for name, meta in nodes.items()}
    return StandInStore(None, found, tuple(found))


def told(**nodes: dict[str, Any]) -> dict[str, str]:
    return dict(unseen(store(**nodes)))


def test_a_node_that_saw_everything_has_no_line() -> None:
    seen = {"found_by": {"cgroup": 9}, "hidden": 0, "zombies": 0, "group_empty_s": 1.0}
    sources = {"process": {"state": "on", "io_refused": 0}, "waits": {"processes_refused": 0}}
    assert told(n1={"processes": seen, "sources": sources}, n2={}) == {}


def test_each_kind_is_counted_over_the_nodes() -> None:
    one = {"hidden": 2, "zombies": 1, "found_by": {"cgroup": 3, "outside": 4}}
    two = {"hidden": 3}
    sources = {"process": {"io_refused": 5}, "waits": {"processes_refused": 6}}
    lines = unseen(store(n1={"processes": one}, n2={"processes": two, "sources": sources}))
    assert [(source, reason.partition(" could ")[0][:24]) for source, reason in lines] == [
        ("processes", "5 processes on n1, n2"),
        ("process", "5 processes on n2 let no"),
        ("waits", "6 processes on n2 let no"),
        ("processes", "1 process on n1 ended an"),
        ("cgroup", "4 processes on n1 ran ou"),
    ]


def test_a_thousand_nodes_are_one_line() -> None:
    lines = unseen(store(**{f"n{i}": {"processes": {"hidden": 1}} for i in range(1000)}))
    assert len(lines) == 1
    assert lines[0][1].startswith("1000 processes on n0, n1, n10,")
    assert "and 992 more" in lines[0][1]


def test_gpus_held_by_nobody_are_told() -> None:
    meta = {"processes": {"group_empty_s": 240.0}, "job": {"gpus_on_node": 8}}
    why = "the job had no process here for 240 s while it held 8 GPUs"
    assert told(n1=meta) == {"node n1": why}
    assert "GPU" not in told(n1={"processes": {"group_empty_s": 240.0}})["node n1"]


def test_processes_told_by_their_environment_alone_are_told_with_scontrols_words() -> None:
    listed = {"asked": 3, "failures": 3, "last_error": "scontrol is not installed on this node"}
    alone = {"found_by": {"environ": 4}, "listpids": listed}
    assert "scontrol is not installed" in told(n1={"processes": alone})["processes"]
    answered = {"found_by": {"environ": 4, "listpids": 1}, "listpids": listed}
    assert told(n1={"processes": answered}) == {}


def test_case_d06_a_pods_containers_may_run_outside_the_jobs_group() -> None:
    path = "/kubepods.slice/kubepods-podaaaa.slice/system.slice/slurmstepd.scope/job_12"
    sources = {"cgroup": {"state": "on", "groups": {path: {"version": 2}}}}
    assert "Kubernetes pod" in told(n1={"sources": sources})["processes"]


def test_the_report_shows_it() -> None:
    report = analyse_store(store(n1={"processes": {"hidden": 2}}))
    lines = [one for one in report["coverage"]["missing"] if one["source"] == "processes"]
    assert len(lines) == 1 and lines[0]["reason"].startswith("2 processes on n1 could not be")
    assert "2 processes on n1 could not be looked at" in " ".join(
        FORMATS.get("text")(report).split()
    )


@pytest.mark.parametrize("junk", [None, -7, "x", [], {"hidden": "many"}, {"hidden": True},
                                  {"found_by": 3, "listpids": [1], "group_empty_s": "nan"},
                                  {"group_empty_s": float("inf")}, {"hidden": -4}])  # fmt: skip
def test_a_hostile_store_breaks_nothing(junk: object) -> None:
    sources = {"process": {"io_refused": junk}, "waits": junk, "cgroup": {"groups": junk}}
    assert told(n1={"processes": junk, "sources": sources, "job": junk}) == {}


def test_processes_of_the_job_that_hung_and_those_that_were_too_many() -> None:
    hung = [{"pid": 7, "of_job": True}, {"pid": 8, "of_job": False}, 9, {"pid": 10}]
    sources = {"process": {"left_out": 12}}
    lines = unseen(
        store(n1={"processes": {"hung": hung}, "sources": sources}, n2={"processes": {"hung": 3}})
    )
    assert [reason.partition(" on n1 ")[0] for _source, reason in lines] == [
        "1 process",
        "12 processes",
    ]
