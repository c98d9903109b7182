"""Stacks beside the hook: agreement over the same seconds, disagreement named, alone without it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.analysis.report import build_report
from slurm_io.analysis.reports.text import render
from slurm_io.analysis.shares import wilson
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.report_shape import problems
from tests.analysis.stand_in import EPOCH_NS, NS, Job, Rank, StandInStore, one_rank, train

HZ = 10


def stacks_of(
    rank: Rank, told: dict[str, str], seed: int = 1, every_s: int = 8, window_s: int = 5
) -> list[dict[str, Any]]:
    """What windows of `window_s` in each `every_s` would have seen. `told`: phase -> state."""
    chance, rows = random.Random(seed), []
    first = int(rank.phases[0][0]) + 1
    for second in range(first, int(rank.now)):
        if (second - first) % every_s >= window_s:
            continue
        counts: dict[str, int] = {}
        for tenth in range(HZ):
            at = second + (tenth + chance.random()) / HZ
            phase = next(
                (phase for begin, end, phase, _, _ in rank.phases if begin <= at < end), "step"
            )
            state = told.get(phase, "compute")
            counts[state] = counts.get(state, 0) + 1
        for state, samples in counts.items():
            rows.append(
                {
                    "ts_ns": EPOCH_NS + (second + 1) * NS,
                    "mono_ns": (second + 1) * NS,
                    "interval_ns": NS,
                    "rank": rank.number,
                    "pid": rank.pid,
                    "role": "rank",
                    "state": state,
                    "sub": "workers" if state == "data_wait" else None,
                    "samples": samples,
                    "certain": samples,
                    "why": "f (a.py:1)",
                    "folded": "a;b",
                }
            )
    return rows


TRUE = {"data_wait": "data_wait", "ckpt": "ckpt"}


def job(rank: Rank, rows: list[dict[str, Any]], hook: bool = True) -> StandInStore:
    store = Job([rank]).store()
    store.nodes["n1"].tables["stacks"] += rows
    if not hook:
        store.nodes["n1"].tables["steps"].clear()
        store.nodes["n1"].tables["events"].clear()
    return store


def check(store: StandInStore) -> dict[str, Any]:
    report = build_report(store, Thresholds())
    assert problems(report) == []
    found: dict[str, Any] = report["coverage"]["stack_check"]
    assert found["text"] in " ".join(render(report).split())
    return found


def waiting(share: float, steps: int = 600) -> Rank:
    return train(one_rank(), steps, 0.2 * (1 - share), lambda k: (0.2 * share, "storage"))


@pytest.mark.parametrize("share", [0.05, 0.4, 0.9])
def test_stacks_that_saw_the_same_time_agree_with_the_hook(share: float) -> None:
    rank = waiting(share)
    found = check(job(rank, stacks_of(rank, TRUE)))
    assert found["data_wait"]["agrees"] is True
    assert found["data_wait"]["hook"] == pytest.approx(share, abs=0.02)
    assert found["data_wait"]["low"] < found["data_wait"]["share"] < found["data_wait"]["high"]
    assert found["ckpt"]["share"] == 0 and found["ckpt"]["high"] < 0.02 and found["ckpt"]["agrees"]
    assert (found["note"], found["ranks"]) == (None, 1)


def test_only_the_seconds_that_stacks_saw_are_compared() -> None:
    """A job that waits in its first half only, recorded in its second half only."""
    rank = train(one_rank(), 300, 0.1, lambda k: (0.1, "storage"))
    half = rank.now
    for k in range(300, 600):
        rank.batch(0.001, "storage", index=k)
        rank.compute(0.2)
    rows = [row for row in stacks_of(rank, TRUE) if row["mono_ns"] > (half + 1) * NS]
    found = check(job(rank, rows))
    assert found["data_wait"]["hook"] < 0.02 and found["data_wait"]["agrees"] is True


def test_a_loader_that_the_hook_does_not_know_is_named() -> None:
    rank = waiting(0.05)
    found = check(job(rank, stacks_of(rank, {"step": "data_wait", "data_wait": "data_wait"})))
    assert found["data_wait"]["agrees"] is False
    assert (
        found["note"] is not None and "rank 0" in found["note"] and "do not agree" in found["note"]
    )


def test_checkpoints_are_compared_too() -> None:
    rank = one_rank()
    for k in range(300):
        rank.batch(0.01, "storage", index=k)
        rank.compute(0.1)
        if k % 30 == 29:
            began = rank.now
            rank.event("ckpt_save", 2.0)
            assert rank.now == pytest.approx(began + 2.0)
    found = check(job(rank, stacks_of(rank, TRUE)))
    assert found["ckpt"]["hook"] > 0.2 and found["ckpt"]["agrees"] is True
    blind = check(job(rank, stacks_of(rank, {"data_wait": "data_wait"})))
    assert blind["ckpt"]["agrees"] is False and blind["data_wait"]["agrees"] is True


def test_passes_begun_and_ended_are_no_wait_on_either_side() -> None:
    rank = waiting(0.4)
    rows = stacks_of(rank, TRUE)
    extra = [{**row, "state": "data_wait", "sub": "epoch", "samples": 10} for row in rows[::3]]
    assert check(job(rank, rows + extra))["data_wait"] == check(job(rank, rows))["data_wait"]


def test_without_a_hook_the_stacks_stand_alone_with_their_interval() -> None:
    rank = waiting(0.4)
    found = check(job(rank, stacks_of(rank, TRUE), hook=False))
    assert found["data_wait"]["share"] == pytest.approx(0.4, abs=0.08)
    assert found["data_wait"]["low"] < 0.4 < found["data_wait"]["high"]
    assert (found["data_wait"]["hook"], found["data_wait"]["agrees"]) == (None, None)
    assert found["note"] is None
    assert sum(found["states"].values()) == pytest.approx(1, abs=0.001)


def test_too_few_windows_to_stand_for_a_hook_are_told_of_all_the_same() -> None:
    rank = waiting(0.4, steps=150)
    found = check(job(rank, stacks_of(rank, TRUE), hook=False))
    assert found["data_wait"]["hook"] is None
    assert found["note"].startswith("no hook") and "too little" in found["note"]


def test_workers_and_too_few_samples_say_nothing() -> None:
    rank = waiting(0.4)
    rows = stacks_of(rank, TRUE)
    for few in (rows[:4], [{**row, "role": "worker"} for row in rows], []):
        assert "stack_check" not in build_report(job(rank, few), Thresholds())["coverage"]


def test_damaged_rows_cost_themselves_and_nothing_else() -> None:
    rank = waiting(0.4)
    rows = stacks_of(rank, TRUE)
    bad: list[dict[str, Any]] = [
        {**rows[0], "mono_ns": None},
        {**rows[0], "samples": -5},
        {**rows[0], "state": "asleep"},
        {**rows[0], "pid": 77, "interval_ns": 2**62},
        {**rows[0], "pid": None},
    ]
    with_damage = check(job(rank, [*rows, *bad[:3], bad[4]]))
    assert with_damage == check(job(rank, rows))
    assert check(job(rank, [*rows, bad[3]]))["data_wait"] == check(job(rank, rows))["data_wait"]


@given(st.integers(1, 100_000), st.floats(0, 1))
def test_the_interval_holds_the_share_and_narrows_with_samples(samples: int, share: float) -> None:
    hits = round(samples * share)
    low, high = wilson(hits / samples, samples, 1.96)
    assert 0 <= low <= hits / samples + 1e-9 and hits / samples - 1e-9 <= high <= 1
    fewer = max(1, samples // 4)
    wider = wilson(min(1.0, hits / 4 / fewer), fewer, 1.96) if samples >= 8 else (0.0, 1.0)
    assert high - low <= wider[1] - wider[0] + 0.3
    if samples == 250:
        assert high - low < 0.13
