"""F19: garbage collections that stop training."""

from __future__ import annotations

import pytest

from slurm_io.analysis.api import analyse_store
from tests.analysis.rules.stores import answer, healthy, job, several, text_of
from tests.analysis.stand_in import Rank, one_rank

RULE = "f19_gc_pauses"


def collecting(pause_s: float, every: int = 20, kind: str = "gc", **more: object) -> Rank:
    rank = one_rank()
    for k in range(600):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(0.05)
        if k % every == every - 1:
            rank.event(kind, pause_s, cause="cpu", **more)
    return rank


@pytest.mark.parametrize(("pause_s", "state"), [(0.02, "quiet"), (0.05, "fired")])
def test_three_per_cent_of_training_separate(pause_s: float, state: str) -> None:
    assert answer(RULE, job(collecting(pause_s))).state == state


def test_slow_steps_that_are_collections_prove_it() -> None:
    said = answer(RULE, job(collecting(0.2)))
    [finding] = said.findings
    assert (finding.severity, finding.confidence) == ("bad", "proven")
    assert "gc.freeze" in text_of(said)
    assert finding.where.ranks == (0,)
    assert finding.lost_gpu_s == pytest.approx(30 * 0.2, rel=0.1)


def test_storage_is_not_blamed_for_them() -> None:
    report = analyse_store(job(collecting(0.2)))
    assert report["verdict"] == "not-storage"
    assert {one["rule"] for one in report["findings"]} == {"F19"}


def test_pauses_that_hide_in_ordinary_steps_are_likely_at_most() -> None:
    [finding] = answer(RULE, job(collecting(0.04, every=10))).findings
    assert finding.confidence == "likely"


def test_other_pauses_are_no_collections() -> None:
    said = answer(RULE, job(collecting(0.2, kind="load")))
    assert said.state == "quiet"


def test_collections_before_the_first_batch_do_not_count() -> None:
    rank = one_rank()
    rank.event("gc", 30.0, cause="cpu")
    for k in range(300):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(0.05)
    assert answer(RULE, job(rank)).state == "quiet"


def test_in_lockstep_one_ranks_pause_is_everybodys_loss() -> None:
    ranks = several(4)
    for k in range(400):
        for rank in ranks:
            rank.batch(0.002, "pipe", index=k)
            rank.compute(0.05, step=False)
            if rank.number == 2 and k % 20 == 19:
                rank.event("gc", 0.2, cause="cpu")
        last = max(rank.now for rank in ranks)
        for rank in ranks:
            rank.idle_until(last)
            rank.compute(0.001)
    [finding] = answer(RULE, job(*ranks)).findings
    assert finding.where.ranks == (2,)
    assert finding.lost_gpu_s == pytest.approx(20 * 0.2 * 4, rel=0.15)


def test_a_healthy_job_has_none() -> None:
    assert "no collection" in answer(RULE, job(healthy())).reason
