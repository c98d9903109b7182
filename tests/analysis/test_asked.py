"""``price`` and ``silence``: what the job, or its partition, asked of the report."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.asked import Asked, asked_of
from tests.analysis.report_shape import problems
from tests.analysis.stand_in import Job, StandInStore, one_rank


def slow_store(comment: str | None = None, request: Any = None) -> StandInStore:
    """A job that F01 and F04 have something to say about."""
    rank = one_rank()
    for k in range(400):
        rank.batch(0.05, index=k)
        rank.compute(0.05)
        if k % 100 == 50:
            rank.event("ckpt_save", 0.4, bytes=10**8, path="/scratch/ckpt/a.pt")
    store = Job([rank], gpus_on_node=1000).store()
    assert store.job is not None
    store.job = type(store.job).from_dict({**store.job.to_dict(), "comment": comment})
    if request is not None:
        store.nodes["n1"].checks = {"request": request, "checks": []}
    return store


def rules_of(store: StandInStore) -> set[str]:
    report = analyse_store(store)
    assert problems(report) == []
    return {finding["rule"] for finding in report["findings"]}


def test_a_silenced_rule_says_nothing_but_that_it_was_silenced() -> None:
    assert rules_of(slow_store()) >= {"F01", "F04"}
    quiet = slow_store("slurm-io: silence=F04")
    assert "F04" not in rules_of(quiet)
    assert "F01" in rules_of(quiet)
    missing = analyse_store(quiet)["coverage"]["missing"]
    assert [one for one in missing if one["source"] == "rule F04" and "silence" in one["reason"]]


def test_a_rule_that_found_nothing_needs_no_silence() -> None:
    missing = analyse_store(slow_store("slurm-io: silence=F02"))["coverage"]["missing"]
    assert [one for one in missing if "silence" in one["reason"]] == []


def test_the_verdict_stays_what_it_was() -> None:
    loud, quiet = slow_store(), slow_store("slurm-io: silence=F01,F04")
    assert analyse_store(quiet)["verdict"] == analyse_store(loud)["verdict"]


def test_what_the_prolog_merged_counts_more_than_the_comment() -> None:
    """Defaults of the partition are in there too."""
    request = {"price_usd_h": 4.0, "silence": ["F04"]}
    assert asked_of(slow_store("slurm-io: price=3", request)) == Asked(4.0, frozenset({"F04"}))
    assert asked_of(slow_store("slurm-io: price=3")) == Asked(3.0)
    found = analyse_store(slow_store(request=request))["findings"]
    costs = [each["cost"] for each in found if each["gpu_hours"] is not None]
    assert costs and all(cost > 0 for cost in costs)


@pytest.mark.parametrize(
    "request_",
    [
        {"price_usd_h": "4", "silence": "F04"},
        {"price_usd_h": -1, "silence": {"F04": 1}},
        {"price_usd_h": True, "silence": [1, None]},
        {"price_usd_h": float("inf")},
        {},
    ],
)
def test_a_store_may_hold_anything(request_: dict[str, Any]) -> None:
    assert asked_of(slow_store(request=request_)) == Asked()
    assert rules_of(slow_store(request=request_)) >= {"F01", "F04"}


def test_a_malformed_comment_asks_for_nothing() -> None:
    assert asked_of(slow_store("slurm-io: silence=all")) == Asked()
