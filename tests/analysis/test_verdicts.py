"""Each verdict on a job whose answer is known, and the number that separates it from the next."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.thresholds import Sampling, Thresholds
from tests.analysis.stand_in import Job, Rank, one_rank, train


def report_of(job: Job) -> dict[str, Any]:
    return analyse_store(job.store())


def rules_fired(report: dict[str, Any]) -> set[str]:
    return {finding["rule"] for finding in report["findings"]}


def steady(wait_s: float, cause: str, workers: int = 2, steps: int = 300, **job: Any) -> Job:
    rank = train(one_rank(workers), steps, 0.05, lambda k: (wait_s, cause))
    return Job([rank], **job)


@pytest.mark.parametrize("workers", [0, 2])
def test_reads_from_slow_storage_are_storage(workers: int) -> None:
    report = report_of(steady(0.05, "storage", workers))
    assert report["verdict"] == "storage"
    assert report["idle"]["data_storage"] == pytest.approx(0.5, abs=0.03)
    assert rules_fired(report) == {"F01", "F16"}  # the stand-in reads a few KiB at a time
    finding = next(one for one in report["findings"] if one["rule"] == "F01")
    assert finding["confidence"] == "proven"
    assert finding["where"]["mounts"] == ["/scratch"]
    assert finding["where"]["ranks"] == [0]
    assert any("/scratch/data/" in path for path in finding["where"]["files"])


def test_object_store_counts_as_storage_and_is_shown_apart() -> None:
    report = report_of(steady(0.05, "net", workers=0))
    assert report["verdict"] == "storage"
    texts = " ".join(one["text"] for one in report["findings"][0]["evidence"])
    assert "reads from the network" in texts


@pytest.mark.parametrize("workers", [0, 2])
def test_batch_preparation_is_cpu_prep_and_not_storage(workers: int) -> None:
    report = report_of(steady(0.05, "cpu", workers))
    assert report["verdict"] == "cpu-prep"
    assert report["idle"]["storage"]["low"] == 0
    assert report["idle"]["storage"]["high"] < 0.03


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_only_sleeps_has_no_proven_cause(workers: int) -> None:
    report = report_of(steady(0.05, "sleep", workers))
    assert report["verdict"] == "not-proven"
    assert report["idle"]["data_storage"] == 0
    assert report["idle"]["data_cpu"] == 0
    assert report["idle"]["storage"]["high"] > 0.4  # it might have been


def test_idle_workers_make_it_the_pipeline() -> None:
    report = report_of(steady(0.05, "pipe"))
    assert report["verdict"] == "pipeline"
    assert report["idle"]["data_storage"] == 0


def test_short_waits_for_workers_are_the_hand_over_and_healthy() -> None:
    report = report_of(steady(0.0025, "pipe"))
    assert report["verdict"] == "healthy"
    assert report["idle"]["data_pipeline"] == pytest.approx(0.0025 / 0.0525, abs=0.005)
    assert report["findings"] == []
    # The report shows the hand-over in the pipeline's share: without a word the two contradict.
    shown = f"{report['idle']['data_pipeline']:.1%}"
    assert report["verdict_reason"].endswith(f"handing batches over, {shown}, is no stall")


def test_blocking_checkpoints_are_checkpoint() -> None:
    report = report_of(Job([checkpointing(0.5)]))
    assert report["verdict"] == "checkpoint"
    assert rules_fired(report) == {"F04"}
    assert report["idle"]["checkpoint"] == pytest.approx(3.0 / 18.6, abs=0.01)


@pytest.mark.parametrize(("save_s", "verdict"), [(0.02, "healthy"), (0.035, "checkpoint")])
def test_one_percent_of_checkpoints_separates(save_s: float, verdict: str) -> None:
    assert report_of(Job([checkpointing(save_s)]))["verdict"] == verdict


def checkpointing(save_s: float) -> Rank:
    rank = one_rank(workers=2)
    for k in range(300):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(0.05)
        if k % 50 == 49:
            rank.event("ckpt_save", save_s, bytes=10**8, path="/scratch/ckpt/step.pt")
    return rank


def test_background_checkpoints_cost_nothing() -> None:
    rank = one_rank(workers=2)
    for k in range(300):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(0.05)
        if k % 50 == 49:
            rank.event("ckpt_background", 2.0, blocking=False)
    report = report_of(Job([rank]))
    assert report["verdict"] == "healthy"
    assert report["idle"]["checkpoint"] == 0


@pytest.mark.parametrize(
    ("wait_s", "verdict"), [(0.0010, "healthy"), (0.0020, "storage")], ids=["2 %", "4 %"]
)
def test_three_percent_of_storage_separates(wait_s: float, verdict: str) -> None:
    report = report_of(steady(wait_s, "storage", workers=0, steps=6000))
    assert report["verdict"] == verdict


@pytest.mark.parametrize(
    ("wait_s", "verdict"), [(0.0020, "healthy"), (0.0035, "cpu-prep")], ids=["4 %", "7 %"]
)
def test_five_percent_of_preparation_separates(wait_s: float, verdict: str) -> None:
    report = report_of(steady(wait_s, "cpu", workers=0, steps=6000))
    assert report["verdict"] == verdict


def test_small_losses_together_are_a_loss_of_the_largest() -> None:
    def wait(k: int) -> tuple[float, str]:
        return (0.0028, "cpu") if k % 2 else (0.0031, "storage")

    report = report_of(Job([train(one_rank(0), 6000, 0.05, wait)]))
    assert report["idle"]["data_storage"] < 0.03
    assert report["idle"]["data_cpu"] < 0.05
    assert report["verdict"] == "storage"


@pytest.mark.parametrize("workers", [0, 2])
def test_garbage_collections_are_not_storage(workers: int) -> None:
    rank = one_rank(workers)
    for k in range(300):
        rank.batch(0.001, "cpu" if workers == 0 else "pipe", index=k)
        rank.compute(0.05)
        if k % 50 == 25:
            rank.event("gc", 1.5, cause="cpu")
    report = report_of(Job([rank]))
    assert report["verdict"] == "not-storage"
    assert rules_fired(report) == {"F19"}


def test_unexplained_slow_steps_are_not_storage() -> None:
    rank = one_rank()
    for k in range(300):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(2.0 if k % 40 == 20 else 0.05)
    assert report_of(Job([rank]))["verdict"] == "not-storage"


def test_spikes_fire_the_variance_rule_and_keep_their_cause_to_themselves() -> None:
    def wait(k: int) -> tuple[float, str]:
        return (1.5, "storage") if k % 80 == 40 else (0.004, "cpu")

    report = report_of(Job([train(one_rank(0), 400, 0.05, wait)]))
    assert report["verdict"] == "storage"
    assert rules_fired(report) == {"F01", "F02"}
    assert report["idle"]["data_storage"] == pytest.approx(7.5 / 29.1, abs=0.02)
    assert report["idle"]["data_cpu"] == pytest.approx(1.58 / 29.1, abs=0.02)


def test_no_wait_samples_prove_nothing() -> None:
    report = report_of(steady(0.05, "storage", waits=False))
    assert report["verdict"] == "not-proven"
    assert report["coverage"]["waits"] == "off"
    assert {"source": "waits", "reason": "off: asked for"} in report["coverage"]["missing"]


def test_a_healthy_job_needs_no_wait_samples() -> None:
    assert report_of(steady(0.0005, "storage", waits=False))["verdict"] == "healthy"


def test_storage_without_a_second_signal_is_likely_and_not_the_verdict() -> None:
    report = report_of(steady(0.05, "storage", calls_per_storage_s=None))
    assert report["verdict"] == "not-proven"
    assert "only one witness agrees (waits)" in report["verdict_reason"]
    assert report["findings"][0]["confidence"] == "likely"


def test_reads_as_fast_as_the_medium_do_not_agree() -> None:
    """1,500 reads a second in storage: 0.7 ms each is what a healthy tier takes."""
    report = report_of(steady(0.05, "storage", calls_per_storage_s=1500.0))
    assert report["findings"][0]["confidence"] == "likely"
    assert report["verdict"] == "not-proven"


@pytest.mark.parametrize(("steps", "proven"), [(10, False), (200, True)])
def test_too_short_a_job_is_not_proven(steps: int, proven: bool) -> None:
    report = report_of(steady(0.05, "storage", steps=steps))
    assert (report["verdict"] == "storage") is proven
    assert (report["verdict"] == "not-proven") is not proven


def test_a_short_run_says_so_in_its_findings() -> None:
    report = report_of(steady(0.05, "storage", steps=150))
    assert report["verdict"] == "storage"
    assert any("a short run" in one["text"] for one in report["findings"][0]["evidence"])
    assert any(one["source"] == "rule F02" for one in report["coverage"]["missing"])


def test_two_stray_samples_name_no_cause() -> None:
    """Half of a run's waits sampled four times: too thin to say preparation."""
    rank = train(one_rank(0, hz=0.3), 250, 0.05, lambda k: (0.05, "cpu"))
    report = report_of(Job([rank]))
    assert report["verdict"] == "not-proven"
    assert rules_fired(report) == set()


@pytest.mark.parametrize("enough_seconds", [50, 100, 10_000])
def test_a_thinned_job_says_the_same(enough_seconds: int) -> None:
    """400 s of training, of which every eighth, every fourth or every second is looked at."""
    rank = train(one_rank(0), 1600, 0.15, lambda k: (0.1, "storage" if k % 4 else "cpu"))
    sampling = Sampling(enough_seconds=enough_seconds)
    report = analyse_store(Job([rank]).store(), Thresholds(sampling=sampling))
    assert report["verdict"] == "storage"
    assert report["idle"]["data_storage"] == pytest.approx(0.3, abs=0.03)
    assert report["idle"]["data_cpu"] == pytest.approx(0.1, abs=0.03)
