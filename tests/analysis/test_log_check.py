"""The job's own log beside the hook: agreement, disagreement, and alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.reports.text import render
from tests.analysis.report_shape import problems
from tests.analysis.stand_in import EPOCH_NS, NS, Job, StandInStore, one_rank, train

Row = dict[str, Any]


def hooked(steps: int = 300, compute_s: float = 0.5, **job: Any) -> StandInStore:
    """Steps of 0.51 s, the first batch after 0.5 s; the rank's clock starts at 100 s."""
    return Job([train(one_rank(), steps, compute_s, lambda k: (0.01, "pipe"))], **job).store()


def unhooked() -> StandInStore:
    store = hooked(steps=30)
    for name in ("steps", "events", "waits"):
        store.nodes["n1"].tables[name] = []
    return store


def log_row(at_s: float, step: int | None, step_time_s: float | None, **more: Any) -> Row:
    columns = {name: more.pop(name, None) for name in ("samples_per_s", "tokens_per_s")}
    detail = {"kind": "step", "run": 1, "basis": "step", "saves": "excluded", "file": 0,
              "clock": "stamp", **more}  # fmt: skip
    at_ns = round(at_s * NS)
    return {
        "ts_ns": EPOCH_NS + at_ns, "mono_ns": at_ns, "step": step, "step_time_s": step_time_s,
        "source": more.pop("source", "megatron"), **columns, "detail": json.dumps(detail),
    }  # fmt: skip


def with_log(store: StandInStore, rows: list[Row]) -> StandInStore:
    store.nodes["n1"].tables["log"] = rows
    return store


def every_step(
    step_s: float, steps: int = 300, printed: Callable[[int], float] | None = None, **more: Any
) -> list[Row]:
    """A line a step, from 100 s on."""
    return [
        log_row(
            100.5 + k * step_s, k, printed(k) if printed else step_s, interval_steps=1,
            warmup=k == 1, **more,
        )
        for k in range(1, steps + 1)
    ]  # fmt: skip


def log_of(store: StandInStore) -> dict[str, Any]:
    report = analyse_store(store)
    assert problems(report) == []
    found: dict[str, Any] = report["coverage"]["log"]
    return found


def test_without_log_rows_the_report_is_as_before() -> None:
    report = analyse_store(hooked())
    assert "log" not in report["coverage"]
    assert "source" not in report["time"]
    assert problems(report) == []


def test_two_clocks_that_agree() -> None:
    store = with_log(hooked(), every_step(0.512))
    log = log_of(store)
    assert (log["source"], log["agrees"], log["note"]) == ("megatron", True, None)
    assert log["step_s"] == pytest.approx(0.512)
    assert log["hook_step_s"] == pytest.approx(0.51, abs=0.001)
    assert log["text"].startswith(
        "steps by the job's own log: 0.512 s, by the hook 0.510 s (299 of"
    )
    assert "log       steps by the job's own log: 0.512 s" in render(analyse_store(store))


@pytest.mark.parametrize(("step_s", "agrees"), [(0.53, True), (0.545, False), (0.47, False)])
def test_five_percent_separates(step_s: float, agrees: bool) -> None:
    log = log_of(with_log(hooked(), every_step(0.51, printed=lambda k: step_s)))
    assert log["agrees"] is agrees


def test_a_disagreement_is_said() -> None:
    store = with_log(hooked(), every_step(0.51, printed=lambda k: 0.61))
    log = log_of(store)
    assert "20% longer than the hook's" in log["note"]
    assert "20% longer than the hook's" in " ".join(render(analyse_store(store)).split())


def test_warm_up_and_lines_of_unknown_age_do_not_count() -> None:
    rows = every_step(0.51, printed=lambda k: 60.0 if k == 1 else 0.51)
    early = [log_row(99.0, 900 + k, 30.0, early=True, interval_steps=1) for k in range(9)]
    log = log_of(with_log(hooked(), early + rows))
    assert (log["agrees"], log["steps"]) == (True, 299)


def test_a_log_that_leaves_saves_out_is_compared_without_saves() -> None:
    rank = one_rank()
    for k in range(300):
        rank.batch(0.5 if k == 0 else 0.01, "pipe", index=k)
        rank.compute(0.5)
        if k % 20 == 19:
            rank.event("ckpt_save", 5.0, bytes=10**8, path="/scratch/c.pt")
    store = Job([rank]).store()
    interval = [
        log_row(
            100 + k * 0.51 + 5.0 * (k // 20), k, 0.51, basis="interval",
            interval_steps=10, warmup=k == 10,
        )
        for k in range(10, 301, 10)
    ]  # fmt: skip
    assert log_of(with_log(store, interval))["agrees"] is True
    gross = [
        log_row(
            100 + k * 0.76, k, 0.76, basis="stamps", saves="included", interval_steps=20,
            warmup=k == 20,
        )
        for k in range(20, 301, 20)
    ]  # fmt: skip
    assert log_of(with_log(store, gross))["agrees"] is True


def test_steps_logged_every_tenth_count_ten() -> None:
    rows = [
        log_row(100 + k * 0.51, k, 0.51, basis="interval", interval_steps=10, warmup=k == 10)
        for k in range(10, 301, 10)
    ]
    assert log_of(with_log(hooked(), rows))["steps"] == 290


def test_a_log_of_batches_beside_optimizer_steps() -> None:
    rows = every_step(0.1275, 1200, unit="batch")
    log = log_of(with_log(hooked(), rows))
    assert log["agrees"] is True
    assert "4 of them in one of the hook's" in log["text"]


def bars(until_s: float, step_s: float, shown_s: float) -> list[Row]:
    """A bar looked at every 10 s; its rate is smoothed and wrong, its clock counts seconds."""
    return [
        log_row(
            100 + at, None, shown_s, kind="progress", basis="smoothed", saves="included",
            clock="read", elapsed_s=float(int(at)), elapsed_steps=int(at / step_s), total_steps=999,
        )
        for at in range(10, int(until_s), 10)
    ]  # fmt: skip


def test_a_bars_own_clock_counts_and_not_its_smoothed_rate() -> None:
    log = log_of(with_log(hooked(), bars(150, 0.51, 0.2)))
    assert log["agrees"] is True
    assert log["step_s"] == pytest.approx(0.51, rel=0.02)


def test_of_several_printers_the_one_that_covers_most_speaks() -> None:
    rows = every_step(0.51, 20) + bars(150, 0.51, 0.51)
    assert log_of(with_log(hooked(), rows))["steps"] > 200


def test_few_steps_are_not_compared() -> None:
    log = log_of(with_log(hooked(), every_step(0.51, 5)))
    assert (log["agrees"], log["hook_step_s"]) == (None, None)


def test_a_log_of_another_time_is_not_compared() -> None:
    rows = [{**row, "ts_ns": row["ts_ns"] + 3600 * NS} for row in every_step(0.9)]
    assert log_of(with_log(hooked(), rows))["agrees"] is None


def test_rates_and_the_loaders_share_by_the_log() -> None:
    rows = every_step(
        0.5, samples_per_s=64.0, tokens_per_s=1000.0, tokens_base="per_gpu", data_wait_s=0.05
    )
    log = log_of(with_log(hooked(), rows))
    assert (log["samples_per_s"], log["tokens_per_s"]) == (64.0, 1000.0)
    assert (log["tokens_base"], log["data_wait_share"]) == ("per_gpu", pytest.approx(0.1))


def test_tokens_of_mixed_bases_are_no_number() -> None:
    rows = every_step(0.5, 20, tokens_per_s=1000.0, tokens_base="per_gpu")
    rows += [{**row, "ts_ns": row["ts_ns"] + NS} for row in every_step(
        0.5, 20, tokens_per_s=8000.0, tokens_base="total")]  # fmt: skip
    log = log_of(with_log(hooked(), rows))
    assert (log["tokens_per_s"], log["tokens_base"]) == (None, None)


class TestWithoutHook:
    def test_the_log_gives_step_time_and_throughput_and_is_named(self) -> None:
        rows = every_step(0.5, 100, printed=lambda k: 0.9 if k % 10 == 0 else 0.5)
        report = analyse_store(with_log(unhooked(), rows))
        assert problems(report) == []
        assert report["time"]["source"] == "job log (megatron)"
        assert report["time"]["steps"] == 99
        assert report["time"]["step_p50_s"] == 0.5
        assert report["time"]["throughput"] == pytest.approx(99 / (89 * 0.5 + 10 * 0.9), abs=0.001)
        assert report["time"]["step_p99_s"] is None
        assert report["verdict"] == "not-proven"

    def test_the_text_says_so(self) -> None:
        text = render(analyse_store(with_log(unhooked(), every_step(0.5, 100))))
        assert "99 steps by the job log (megatron): P50 500 ms, 2 steps/s" in text
        assert "steps by the job's own log: 0.500 s (99 steps, megatron)" in text


class TestDamage:
    @pytest.mark.parametrize(
        "detail",
        ["", "{", "[]", "5", '{"kind": 5}', '{"kind": "step", "interval_steps": "x"}',
         '{"kind": "step", "interval_steps": -5}', '{"kind": "step", "interval_steps": 1e300}',
         '{"kind": "step", "elapsed_s": NaN, "elapsed_steps": 1}',
         '{"kind": "step", "file": [], "basis": {}, "tokens_base": []}', "[" * 100_000,
         '{"kind": "progress", "elapsed_s": 1e300, "elapsed_steps": 3}'],
    )  # fmt: skip
    def test_a_strange_detail_is_no_error(self, detail: str) -> None:
        rows = [{**row, "detail": detail} for row in every_step(0.5, 20)]
        report = analyse_store(with_log(hooked(), rows))
        assert problems(report) == []
        json.dumps(report, allow_nan=False)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0, 1e300, 1e-300])
    def test_strange_times_are_no_error(self, value: float) -> None:
        rows = every_step(0.5, 20, printed=lambda k: value)
        report = analyse_store(with_log(hooked(), rows))
        assert problems(report) == []
        json.dumps(report, allow_nan=False)

    @pytest.mark.parametrize("ts_ns", [-(2**63), 2**63 - 1, 0])
    def test_strange_clocks_are_no_error(self, ts_ns: int) -> None:
        rows = [{**row, "ts_ns": ts_ns} for row in every_step(0.5, 20)]
        report = analyse_store(with_log(hooked(), rows))
        assert problems(report) == []

    def test_a_very_long_log_is_thinned(self) -> None:
        rows = [log_row(100 + k * 0.001, k, 0.5, interval_steps=1) for k in range(45_000)]
        log = log_of(with_log(hooked(), rows))
        assert (log["step_s"], log["steps"]) == (0.5, 45_000)
