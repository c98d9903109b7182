"""Logs that people reported, with the answer that is right: no part of it may be missed."""

from __future__ import annotations

import pytest

from slurm_io.joblog.model import LogRecord
from slurm_io.joblog.tail import LogTail
from tests.joblog.logs import case, case_log, line_of, only, parse


def steps(name: str, file: str = "log.txt") -> list[LogRecord]:
    return parse(case_log(name, file), "step")


def test_seconds_and_rank_prefix_and_a_log_full_of_other_numbers() -> None:
    data, expected = case_log("A01"), case("A01")
    [want] = expected["answer"]["steps"]
    step = only(data, "step")
    assert (step.step, step.step_time_s) == (want["step"], want["step_time_s"])
    assert step.samples_per_s == want["samples_per_s"]
    assert step.tokens_per_s == pytest.approx(
        want["tokens_per_s"], abs=expected["tolerance"]["tokens_per_s"]
    )
    assert step.stamp is None  # later lines have one, this one has not
    names = ("total_steps", "global_batch", "loss", "lr", "skipped")
    assert {name: step.detail[name] for name in names} == {name: want[name] for name in names}
    assert step.detail["nan_iterations"] == want["nan"]
    assert step.detail["tokens_per_sample"] == expected["answer"]["derived"]["seq_len"]
    assert step.detail["tokens_base"] == "total"
    [event] = expected["answer"]["events"]
    seen = only(data, "eval")
    assert (seen.step, seen.detail["loss"]) == (event["step"], event["loss"])
    assert [line_of(data, one.at_byte) for one in (step, seen)] == [want["line"], event["line"]]
    assert len(parse(data)) == 2  # nothing from the lines of the scheduler


@pytest.mark.parametrize("file", ["gen1.txt", "gen2.txt", "gen3.txt"])
def test_one_printer_in_three_generations(file: str) -> None:
    expected = case("A03")
    found = steps("A03", file)
    wanted = expected["answer"][file]["steps"]
    assert [step.step for step in found] == [want["step"] for want in wanted]
    for step, want in zip(found, wanted, strict=True):
        assert step.samples_per_s == want["samples_per_s"]
        if want["step_time_s"] is None:
            assert step.step_time_s is None and "basis" not in step.detail
        else:
            tolerance = expected["tolerance"]["step_time_s"]
            assert step.step_time_s == pytest.approx(want["step_time_s"], abs=tolerance)
            assert step.detail["basis"] == "stamps"
        assert step.detail.get("skipped") == want.get("skipped")
        assert "ranks_seen" not in step.detail  # two lines of one rank are not two ranks


def test_rounded_figures_are_ranges_and_counters_that_stand_still_prove_nothing() -> None:
    expected = case("A05")
    found, wanted = steps("A05"), expected["answer"]["steps"]
    tolerance = expected["tolerance"]["tokens_per_s"]
    for step, want in zip(found, wanted, strict=True):
        assert step.step == want["step"]
        assert step.step_time_s == want["step_time_s"]
        assert step.tokens_per_s == pytest.approx(want["tokens_per_s"], abs=tolerance)
        assert step.detail["tokens_per_s_per_gpu"] == want["tokens_per_s_per_gpu"]
        assert step.detail["step_time_low_s"] < want["step_time_s"]
        assert step.detail["step_time_high_s"] > want["step_time_s"]
        assert step.detail["gpus"] == expected["answer"]["gpus"]
        want_tokens = expected["answer"]["tokens_per_step"]
        assert step.detail["tokens_per_step"] == want_tokens["value"]
        low, high = step.detail["tokens_per_step_low"], step.detail["tokens_per_step_high"]
        assert want_tokens["low"] <= low <= want_tokens["value"] <= high <= want_tokens["high"]


def test_every_rank_prints_and_one_line_is_torn() -> None:
    data, expected = case_log("A06"), case("A06")
    tail = LogTail()
    tail.feed(data)
    found, wanted = tail.take(last=True), expected["answer"]["steps"]
    assert [step.step for step in found] == [4, 5]
    for step, want in zip(found, wanted, strict=True):
        assert step.tokens_per_s == pytest.approx(want["tokens_per_s_per_gpu"], abs=2)
        assert step.detail["tokens_base"] == "per_gpu"  # no total: nobody knows how many devices
        assert step.detail["loss"] == want["loss"]
        assert step.detail["ranks_seen"] == want["ranks_seen"]
        assert step.step_time_s == (
            want["step_time_s"] and pytest.approx(want["step_time_s"], abs=1e-6)
        )
    per_step = found[1].tokens_per_s * found[1].step_time_s  # type: ignore[operator]
    assert per_step == pytest.approx(
        expected["answer"]["derived"]["tokens_per_step_per_gpu"], rel=1e-3
    )
    assert [line_of(data, at) for at in tail.counts.torn_at] == [9]


def test_progress_bar_with_nan_and_rounded_counts_and_a_save_on_its_own_line() -> None:
    data, expected = case_log("A08", "nan.txt"), case("A08")
    want = expected["answer"]["nan.txt"]
    bar = only(data, "progress")
    assert (bar.step, bar.detail["total_steps"]) == (want["steps_done"], want["total_steps"])
    assert bar.detail["elapsed_s"] == want["elapsed_s"]
    assert bar.step_time_s == want["step_time_s_last"]
    assert bar.detail["mean_s"] == pytest.approx(want["step_time_s_wall_mean"], abs=0.001)
    assert "loss" not in bar.detail and bar.detail["nan"] == ["reduced_train_loss"]
    assert bar.detail["val_loss"] == want["val_loss"]
    assert bar.detail["global_batch"] == want["samples_per_step"]
    assert bar.tokens_per_s is want["tokens_per_s"]
    assert bar.detail["outside_step_share"] == pytest.approx(want["outside_step_share"], abs=0.002)
    [event] = want["events"]
    save = only(data, "ckpt_save")
    assert (save.step, save.detail.get("duration_s")) == (event["step"], event["duration_s"])
    assert len(parse(data)) == 2


def test_a_bar_that_runs_for_weeks() -> None:
    want = case("A08")["answer"]["slow.txt"]
    bar = only(case_log("A08", "slow.txt"))
    assert (bar.kind, bar.step) == ("progress", want["steps_done"])
    assert want["last_global_step_0based"] == want["steps_done"] - 1
    assert bar.detail["total_steps"] == want["total_steps"]
    assert bar.detail["elapsed_s"] == want["elapsed_s"]
    assert bar.detail["mean_s"] == pytest.approx(want["step_time_s_wall_mean"], abs=0.001)
    assert bar.detail["loss"] == want["loss"]
    assert bar.detail["samples_per_step"] == pytest.approx(want["samples_per_step_about"], abs=5)
    assert "global_batch" not in bar.detail  # three digits allow several


def test_a_step_is_a_block_of_lines() -> None:
    expected = case("A09")
    [want] = expected["answer"]["steps"]
    data = case_log("A09")
    step = only(data)  # the warning about checkpoint.py is no save
    assert (step.kind, step.step) == ("step", want["step"])
    assert step.detail["total_steps"] == want["total_steps"]
    tolerance = expected["tolerance"]
    assert step.step_time_s == pytest.approx(want["step_time_s"], abs=tolerance["step_time_s"])
    assert step.tokens_per_s == pytest.approx(want["tokens_per_s"], abs=tolerance["tokens_per_s"])
    assert step.detail["tokens_base"] == "total"
    assert step.detail["tokens_per_s_per_gpu"] == want["tokens_per_s_per_gpu"]
    assert (step.samples_per_s, step.detail["loss"]) == (want["samples_per_s"], want["loss"])
    assert step.detail["gpus"] == expected["answer"]["gpus"]
    assert step.detail["tokens_per_sample"] == expected["answer"]["tokens_per_sample"]
    assert step.detail["global_batch"] == expected["answer"]["derived"]["global_batch"]
    assert step.at_byte == 0


@pytest.mark.parametrize("number", [0, 1], ids=["bare /s", "Samples/Second"])
def test_the_loader_wait_stands_in_the_step_line(number: int) -> None:
    expected = case("A11")
    want = expected["answer"]["both"]
    step = only(case_log("A11").splitlines(keepends=True)[number])
    assert step.step_time_s == want["step_time_s"]
    assert (step.samples_per_s, step.tokens_per_s) == (want["samples_per_s"], want["tokens_per_s"])
    names = ("epoch", "samples_done", "samples_total", "data_wait_s", "global_batch", "loss",
             "step_in_epoch", "steps_per_epoch")  # fmt: skip
    assert {name: step.detail[name] for name in names} == {name: want[name] for name in names}
    assert step.step == 1 * want["steps_per_epoch"] + want["step_in_epoch"]
    share = step.detail["data_wait_s"] / step.step_time_s
    assert share == pytest.approx(
        want["data_wait_share"], abs=expected["tolerance"]["data_wait_share"]
    )


def test_both_spellings_of_one_step_are_one_step() -> None:
    assert len(steps("A11")) == 1


def test_several_trainings_in_one_log_with_nan_and_a_cut_end() -> None:
    data, expected = case_log("A12"), case("A12")
    tail = LogTail()
    tail.feed(data)
    records = tail.take(last=True)
    wanted = expected["answer"]["runs"]
    assert {record.run for record in records if record.kind == "loss"} == {1, 2, 3, 4}
    ends = {record.run: record for record in records if record.kind == "run_end"}
    for run, want in enumerate(wanted, 1):
        losses = [one for one in records if one.kind == "loss" and one.run == run]
        if not want["complete"]:
            assert run not in ends and len(losses) == want["loss_lines"]
            continue
        end = ends[run]
        assert (end.step, end.detail["runtime_s"]) == (want["steps"], want["runtime_s"])
        assert end.step_time_s == pytest.approx(want["mean_step_time_s"], abs=1e-5)
        assert end.samples_per_s == want["samples_per_s"]
        assert end.detail["loss_steps"] == want["loss_lines_at_steps"]
        assert len(losses) == len(want["loss_lines_at_steps"])
        for one in losses:
            is_nan = one.detail.get("nan") == ["grad_norm"] and "grad_norm" not in one.detail
            assert is_nan == want.get("grad_norm_nan", False)
    assert all(record.tokens_per_s is None for record in records)
    assert [line_of(data, at) for at in tail.counts.torn_at] == [data.count(b"\n") + 1]


def test_the_first_iteration_is_warm_up_and_the_last_line_is_cut() -> None:
    data, want = case_log("A13", "warmup.txt"), case("A13")["answer"]["warmup.txt"]
    tail = LogTail()
    tail.feed(data)
    found = tail.take(last=True)
    for step, each in zip(found, want["steps"], strict=True):
        assert step.step == each["step"]
        assert step.step_time_s == pytest.approx(each["step_time_s"], abs=0.0001)
    assert [one.step for one in found if one.detail.get("warmup")] == want["warmup_steps"]
    assert found[2].samples_per_s == pytest.approx(want["samples_per_s_step3"], abs=0.001)
    assert [line_of(data, at) for at in tail.counts.torn_at] == want["incomplete_lines"]


def test_an_interval_of_ten_without_any_loss_and_all_of_it_skipped() -> None:
    want = case("A13")["answer"]["skipped.txt"]
    found = steps("A13", "skipped.txt")
    for step, each in zip(found, want["steps"], strict=True):
        assert step.step == each["step"]
        assert step.step_time_s == pytest.approx(each["step_time_s"], abs=0.0001)
        assert step.detail.get("loss") is each["loss"]
        assert step.detail["skipped"] == each["skipped_in_interval"]
    assert found[1].detail["interval_steps"] == want["log_interval_steps"]
    wait_s = found[0].detail["data_wait_s"]
    assert wait_s == pytest.approx(want["data_wait_s_per_step_at_10"])
    assert wait_s / found[0].step_time_s == pytest.approx(want["data_wait_share_at_10"], abs=0.001)
    assert "data_wait_s" not in found[1].detail
