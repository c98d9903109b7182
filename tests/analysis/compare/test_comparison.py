"""Whole comparisons of stores: what changed, what differs, what cannot be compared."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from slurm_io.analysis.compare.comparison import compare_sides, is_comparison, is_difference
from slurm_io.analysis.compare.side import Side, side_of
from slurm_io.analysis.compare.text import render
from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.stand_in import Job, StandInStore, one_rank

LOADER = {
    "id": 0, "pid": 1000, "num_workers": 2, "batch_size": 8, "prefetch_factor": 2,
    "persistent": False, "pin_memory": True, "context": "fork", "dataset": "d.Set",
}  # fmt: skip


def store(
    wait_s: float, steps: int = 400, *, seed: int = 1, loader: dict[str, Any] | None = None,
    step: bool = True, cause: str = "storage", **facts: Any,
) -> StandInStore:  # fmt: skip
    """Steps of 50 ms and a wait, both varying by a tenth."""
    dice, rank = random.Random(seed), one_rank()
    for k in range(steps):
        rank.batch(wait_s * dice.uniform(0.9, 1.1) if k else 0.5, cause, index=k)
        rank.compute(0.05 * dice.uniform(0.9, 1.1), step)
    made = Job([rank]).store()
    meta = made.nodes["n1"].meta
    meta |= {"loaders": [{**LOADER, **(loader or {})}], "kernel": "6.1", **facts}
    return made


def side(made: StandInStore) -> Side:
    return side_of("store", take_picture(made, Thresholds()))


def figure(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in found["figures"] if one["figure"] == name)


def test_a_slower_loader_is_slower_by_so_much_and_the_setting_is_named() -> None:
    a, b = store(0.01), store(0.02, seed=2, loader={"num_workers": 1})
    found = compare_sides(side(a), side(b))
    assert found["verdict"] == "slower"
    mean = figure(found, "step_mean")
    assert mean["low"] < 10 / 60 < mean["high"]
    assert found["changed"] == [{"setting": "loader workers", "a": ["2"], "b": ["1"]}]
    assert is_difference(found)
    text = render(found)
    assert text.startswith("slurm-io compare: B IS SLOWER\n")
    assert "changed   loader workers: 2 -> 1" in text


def test_the_other_way_round_it_is_faster() -> None:
    found = compare_sides(side(store(0.02, seed=2)), side(store(0.01)))
    assert found["verdict"] == "faster"
    assert "B IS FASTER" in render(found)
    assert "no recorded setting changed" in render(found)


def test_the_same_is_no_difference_and_says_what_could_have_been_seen() -> None:
    found = compare_sides(side(store(0.01)), side(store(0.01, seed=2)))
    assert found["verdict"] == "no-difference-proven"
    assert not is_difference(found)
    assert is_comparison(found)
    assert found["changed"] == []
    mean = figure(found, "step_mean")
    assert mean["state"] == "no difference proven"
    assert 0.02 <= mean["smallest_seen"] < 0.05
    assert "smallest that could have been seen: 2.0%" in " ".join(render(found).split())


def test_a_sure_difference_of_one_per_cent_is_of_no_account() -> None:
    found = compare_sides(side(store(0.01, 4000)), side(store(0.0104, 4000, seed=2)))
    assert figure(found, "step_mean")["state"] == "negligible"
    assert not is_difference(found)
    assert "too little to be of account" in render(found)


def test_several_changes_are_not_told_apart() -> None:
    b = store(0.02, seed=2, loader={"num_workers": 1, "prefetch_factor": 1}, kernel="6.9")
    found = compare_sides(side(store(0.01)), side(b))
    assert any("3 settings changed together" in note for note in found["notes"])


def test_another_batch_size_is_other_work_and_items_are_compared() -> None:
    found = compare_sides(side(store(0.01)), side(store(0.01, seed=2, loader={"batch_size": 4})))
    assert figure(found, "step_mean")["reason"] == (
        "a step is other work: batch size 8 in A, 4 in B"
    )
    item = figure(found, "item_mean")
    assert item["low"] < 1.0 < item["high"]  # half the items in the same time
    assert found["verdict"] == "slower"


def test_a_short_run_says_so() -> None:
    found = compare_sides(side(store(0.01, 60)), side(store(0.02)))
    assert found["verdict"] == "not-comparable"
    assert not is_comparison(found)
    assert "A is too short: 57 of at least 100" in figure(found, "step_mean")["reason"]
    assert figure(found, "step_mean")["a"] == pytest.approx(0.06, rel=0.1)


def test_steps_and_batches_are_different_bases() -> None:
    found = compare_sides(side(store(0.01)), side(store(0.01, step=False)))
    assert (
        "different bases: steps are optimizer steps in A, batches in B"
        in (figure(found, "step_mean")["reason"])
    )


def log_rows(step_s: float, count: int, seed: int) -> list[dict[str, Any]]:
    dice, ns = random.Random(seed), 1_760_000_000 * 10**9
    rows = []
    for k in range(count):
        took = step_s * dice.uniform(0.9, 1.1)
        ns += round(took * 1e9)
        detail = {"kind": "step", "file": 0, "basis": "stamps", "clock": "stamp"}
        rows.append({"ts_ns": ns, "mono_ns": ns, "source": "megatron", "step": k,
                     "step_time_s": took, "detail": json.dumps(detail)})  # fmt: skip
    return rows


def hookless(step_s: float, seed: int = 1) -> StandInStore:
    made = store(0.01, 0)
    made.nodes["n1"].tables["log"] = log_rows(step_s, 400, seed)
    return made


def test_without_hooks_the_logs_are_compared_and_the_rest_has_its_reason() -> None:
    found = compare_sides(side(hookless(0.5)), side(hookless(0.6, 2)))
    assert found["verdict"] == "slower"
    mean = figure(found, "step_mean")
    assert mean["base"] == "steps by the job's log (megatron)"
    assert mean["low"] < 0.2 < mean["high"]
    share = figure(found, "storage_share")
    assert share["a"] is None
    assert share["reason"] == "no hook timed batches in A and B"
    assert render(found)


def test_a_hook_and_a_log_are_different_bases() -> None:
    found = compare_sides(side(store(0.01)), side(hookless(0.06)))
    reason = figure(found, "step_mean")["reason"]
    assert reason == "different bases: steps by the hook in A, by the job's log (megatron) in B"
    assert not is_comparison(found)


def test_a_client_latency_is_compared_where_both_have_it() -> None:
    stores = []
    for ms, seed in ((2.0, 1), (6.0, 2)):
        made, dice = store(0.05, seed=seed), random.Random(seed)
        made.nodes["n1"].tables["fsclient"] = [
            {"ts_ns": k * 10**9, "mono_ns": k * 10**9, "interval_ns": 10**9, "mount": "/scratch",
             "fstype": "nfs4", "source": "mountstats", "op_class": "read", "ops": 50,
             "exe_ms": ms * dice.uniform(0.5, 1.5)}
            for k in range(200)
        ]  # fmt: skip
        stores.append(made)
    found = compare_sides(*map(side, stores))
    latency = figure(found, "read_latency")
    assert latency["base"] == "client (mountstats, read)"
    assert latency["low"] < 2.0 < latency["high"]
    alone = compare_sides(side(stores[0]), side(store(0.05, seed=3)))
    assert "different bases" in figure(alone, "read_latency")["reason"]


def test_an_empty_store_is_not_comparable_and_nothing_breaks() -> None:
    nothing = side(StandInStore(None, {}, ()))
    found = compare_sides(nothing, nothing)
    assert found["verdict"] == "not-comparable"
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert render(found)


def test_hostile_words_are_shown_and_not_obeyed() -> None:
    b = store(0.01, seed=2, kernel="6.1\x1b[2J")
    b.extra["command"] = ["python", "a\x1b]0;x"]
    text = render(compare_sides(side(store(0.01)), side(b)))
    assert "\x1b" not in text
    assert "\\x1b[2J" in text


def test_commands_differ_by_their_words_only() -> None:
    a, b = store(0.01), store(0.01, seed=2)
    a.extra["command"] = ["python", "train.py", "--workers", "2", "--fast"]
    b.extra["command"] = ["python", "train.py", "--workers", "8"]
    text = render(compare_sides(side(a), side(b)))
    assert "changed   command: --workers 2 --fast -> --workers 8" in text


def test_a_wait_whose_cause_was_not_seen_may_be_storage() -> None:
    """All waits of A are storage's, and so may be all of B."""
    known, unknown = side(store(0.05)), side(store(0.05, seed=2, cause="unknown"))
    assert unknown.storage_off > 0.4
    found = figure(compare_sides(known, unknown), "storage_share")
    assert found["a"] - found["b"] > 0.4
    assert found["state"] == "no difference proven"
    cpu = side(store(0.05, seed=2, cause="cpu"))
    assert figure(compare_sides(known, cpu), "storage_share")["state"] == "differs"


def test_the_share_of_storage_may_be_as_far_off_as_its_range_goes() -> None:
    one = side(store(0.05))
    told = one.report["idle"]["storage"]
    farther = max(told["high"] - told["value"], told["value"] - told["low"])
    assert one.storage_off == pytest.approx(farther, abs=1e-5)
    assert one.storage_off > (told["high"] - told["low"]) / 2


def test_no_line_is_wider_than_the_terminal() -> None:
    found = compare_sides(side(store(0.01)), side(store(0.02, seed=2)))
    for columns in (60, 80):
        assert max(map(len, render(found, columns).splitlines())) <= columns
    assert render(found, 300) == render(found)


def test_a_command_of_a_million_words_is_told_shortly() -> None:
    """A store comes from anybody; word by word this would take hours."""
    a, b = side(store(0.01)), side(store(0.01, seed=2))
    longs = [{**one.settings.values, "command": ("a " * count,)} for one, count in
             ((a, 1_000_000), (b, 999_999))]  # fmt: skip
    a, b = (
        replace(one, settings=replace(one.settings, values=values))
        for one, values in zip((a, b), longs, strict=True)
    )
    text = render(compare_sides(a, b))
    assert "changed   command: a a a" in text
    assert len(text) < 10_000
