"""The report says what of the steps comes from rings, and what is missing there."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.leftover import leftover
from slurm_io.analysis.reports.base import FORMATS
from tests.analysis.stand_in import StandInNode, StandInStore

NS = 1_000_000_000


def store(**meta: Any) -> StandInStore:
    return StandInStore(None, {"n1": StandInNode("n1", meta)}, ("n1",))


def lines(told: object) -> list[str]:
    return [reason for _source, reason in leftover(store(leftover=told))]


def said(meta: dict[str, Any]) -> str:
    report = analyse_store(store(**meta))
    assert all(FORMATS.get(name)(report) for name in ("text", "json"))
    return "\n".join(one["reason"] for one in report["coverage"]["missing"])


def test_a_normal_end_has_no_line() -> None:
    assert leftover(store()) == []
    assert lines({"lost": [], "unread": None, "dropped_rows": 0, "until_ts_ns": 5}) == []


def test_how_the_sampler_ended_says_where_the_steps_are_from() -> None:
    assert "the sampler was killed, the last 2 s may be missing" in said({"clean_end": False})
    told = {"clean_end": False, "end_reason": None, "leftover": {"until_ts_ns": 7 * NS}}
    assert "the sampler was killed; steps after that are from the hook's rings" in said(told)


def test_what_was_lost_is_told_with_its_size() -> None:
    lost = {"pid": 9, "rank": 3, "from_ts_ns": 2 * NS, "to_ts_ns": 14 * NS, "batches": 120}
    unknown = {"pid": 9, "rank": None, "from_ts_ns": None, "to_ts_ns": 14 * NS, "batches": None}
    rest = "were overwritten in the ring while no sampler read it"
    one = {**lost, "batches": 1}
    assert lines({"lost": [lost]}) == [f"n1: 120 batches of rank 3 (up to 12.0 s) {rest}"]
    assert lines({"lost": [one]}) == [f"n1: 1 batch of rank 3 (up to 12.0 s) {rest}"]
    assert lines({"lost": [unknown]}) == [f"n1: steps of process 9 {rest}"]
    assert lines({"lost": [one, lost]}) == [f"n1: 121 batches of 2 ranks (up to 12.0 s) {rest}"]
    assert lines({"lost": [lost, unknown]}) == [
        f"n1: 120 batches and more of 2 ranks (up to 12.0 s) {rest}"
    ]


def test_what_could_not_be_read_or_kept_is_told() -> None:
    assert lines({"unread": "time was up"}) == [
        "n1: not all of the hook's rings was read: time was up"
    ]
    assert lines({"dropped_rows": 5, "drop_reason": "ENOSPC"}) == [
        "n1: 5 rows from the hook's rings were dropped: ENOSPC"
    ]


@pytest.mark.parametrize(
    "told",
    [
        7, [], "x", {"lost": 5}, {"lost": [5, {}]}, {"lost": [{"rank": "x", "pid": []}]},
        {"unread": 5, "dropped_rows": "many", "until_ts_ns": "late"}, {"unread": "x" * 100_000},
    ],
)  # fmt: skip
def test_a_hostile_meta_is_no_fault_of_the_report(told: object) -> None:
    assert len(said({"clean_end": False, "leftover": told})) < 20_000
