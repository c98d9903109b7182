"""The prologs' results in the report: merged over nodes, bounded, whatever the store holds."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.checks import MAX_NODES_NAMED, merged_checks
from slurm_io.analysis.reports.base import FORMATS
from tests.analysis.report_shape import problems
from tests.analysis.stand_in import Job, StandInNode, StandInStore, one_rank, train

BAD = {
    "check": "dataset", "answer": "FAIL", "kind": "job", "subject": "c4",
    "text": "3 of 9 files are missing", "policy": "warn", "action": "warn",
    "facts": {"missing_count": 3}, "not_looked_at": [], "commands": ["slurm-io dataset stage c4"],
}  # fmt: skip
GOOD = {**BAD, "check": "mounts", "answer": "OK", "kind": "node", "text": "2 mounts answer"}


def store_of(results: dict[str, Any]) -> StandInStore:
    """A healthy job; `results` maps nodes to what their checks.json holds."""
    store = Job([train(one_rank(), 30, 0.05, lambda k: (0.0, "cpu"))]).store()
    first = store.nodes["n1"]
    for node, checks in results.items():
        store.nodes[node] = StandInNode(node, first.meta, first.tables if node == "n1" else {})
        store.nodes[node].checks = checks
    return store


def text_of(store: StandInStore) -> list[str]:
    report = analyse_store(store)
    assert problems(report) == []
    return [line for line in FORMATS.get("text")(report).splitlines() if line.startswith("checks")]


def test_the_same_answer_of_many_nodes_is_one_entry() -> None:
    store = store_of({"n1": {"checks": [BAD, GOOD]}, "n2": {"checks": [GOOD]}})
    first, second = merged_checks(store)
    assert (first["check"], first["nodes"], first["node_count"]) == ("dataset", ["n1"], 1)
    assert (second["check"], second["nodes"], second["node_count"]) == ("mounts", ["n1", "n2"], 2)
    assert first["facts"] == {"missing_count": 3}


def test_different_answers_stay_apart() -> None:
    other = {**BAD, "text": "4 of 9 files are missing"}
    assert len(merged_checks(store_of({"n1": {"checks": [BAD]}, "n2": {"checks": [other]}}))) == 2


def test_a_thousand_nodes_are_counted_and_some_named() -> None:
    store = store_of({f"n{k}": {"checks": [BAD]} for k in range(1000)})
    (entry,) = merged_checks(store)
    assert entry["node_count"] == 1000
    assert len(entry["nodes"]) == MAX_NODES_NAMED


def test_one_line_when_all_is_well() -> None:
    assert text_of(store_of({"n1": {"checks": [GOOD]}, "n2": {"checks": [GOOD]}})) == [
        "checks    2 OK"
    ]


def test_one_line_for_each_thing_that_is_not() -> None:
    lines = text_of(store_of({"n1": {"checks": [GOOD, BAD]}}))
    assert lines == [
        "checks    1 OK",
        "checks    FAIL dataset on n1: c4: 3 of 9 files are missing",
    ]


def test_no_checks_no_line() -> None:
    assert text_of(store_of({"n1": None})) == []


def test_control_characters_do_not_reach_the_terminal() -> None:
    lines = text_of(store_of({"n1": {"checks": [{**BAD, "text": "\x1b[2J", "subject": "a\nb"}]}}))
    assert all(line.isprintable() for line in lines)


NONSENSE: list[Any] = [
    None, "x", 3, [], [1], {}, {"checks": None}, {"checks": {}}, {"checks": [None, 1, []]},
    {"checks": [{}]}, {"checks": [{**BAD, "answer": []}]}, {"checks": [{**BAD, "answer": "MAYBE"}]},
    {"checks": [{**BAD, "text": None}]}, {"checks": [{**BAD, "check": 7}]},
]  # fmt: skip


@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_what_is_no_result_is_left_out(value: Any) -> None:
    assert text_of(store_of({"n1": value})) == []


@pytest.mark.parametrize("name", ["subject", "facts", "commands", "policy", "kind"])
@pytest.mark.parametrize("value", [None, 3, [], {"a": []}], ids=repr)
def test_odd_fields_harm_nobody(name: str, value: Any) -> None:
    assert text_of(store_of({"n1": {"checks": [{**BAD, name: value}]}}))
