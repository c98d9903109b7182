"""A batch's hand-over is CPU work: it is taken out of the CPU's part of a wait first."""

from __future__ import annotations

import polars as pl
import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.causes import _without_handover
from slurm_io.analysis.samples import CAUSES
from tests.analysis.stand_in import Job, one_rank, train


def split(wait_s: float, handover_s: float, **shares: float) -> dict[str, float]:
    row = {"wait_s": wait_s, "handover_s": handover_s, "handed": handover_s / wait_s}
    row |= {f"p_{cause}": shares.get(cause, 0.0) for cause in CAUSES}
    after = _without_handover(pl.DataFrame([row])).row(0, named=True)
    return {cause: after[f"p_{cause}"] for cause in CAUSES}


def test_what_the_samples_saw_as_cpu_covers_the_handover() -> None:
    after = split(0.020, 0.002, storage=0.9, cpu=0.1)
    assert after["storage"] == pytest.approx(1.0)  # 18 of the remaining 18 ms
    assert after["cpu"] == pytest.approx(0.0)


def test_what_it_cannot_cover_comes_out_of_the_others_alike() -> None:
    after = split(0.020, 0.004, storage=0.6, sleep=0.3, cpu=0.1)
    assert after["cpu"] == 0.0
    assert after["storage"] == pytest.approx(2 * after["sleep"])
    assert sum(after.values()) == pytest.approx(1.0)


def test_cpu_beyond_the_handover_stays_cpu() -> None:
    after = split(0.020, 0.002, storage=0.5, cpu=0.5)
    assert after["cpu"] == pytest.approx(0.008 / 0.018)
    assert after["storage"] == pytest.approx(0.010 / 0.018)


def test_without_a_handover_nothing_moves() -> None:
    assert split(0.020, 0.0, storage=0.7, cpu=0.3)["cpu"] == 0.3


@pytest.mark.parametrize("shares", [{"cpu": 1.0}, {"sleep": 1.0}, {"unknown": 1.0}])
def test_one_cause_alone_stays_alone(shares: dict[str, float]) -> None:
    [(cause, share)] = shares.items()
    assert split(0.020, 0.002, **shares)[cause] == pytest.approx(share)


def test_a_wait_that_is_all_handover_divides_by_nothing() -> None:
    after = split(0.002, 0.002, storage=0.5, cpu=0.5)
    assert sum(after.values()) == pytest.approx(1.0)


def test_batches_handed_over_in_the_same_second_leave_a_late_one_its_cause() -> None:
    """Of six batches a second one waits 102 ms for storage, five are handed over in 3 ms."""
    cost = {True: (0.102, "storage"), False: (0.003, "pipe")}
    rank = train(one_rank(workers=2), 900, 0.05, lambda k: cost[k % 6 == 0])
    idle = analyse_store(Job([rank]).store())["idle"]
    truth = 149 * 0.1 / (rank.now - 100.5)
    assert idle["storage"]["low"] <= truth <= idle["storage"]["high"]
    assert idle["storage"]["value"] == pytest.approx(truth, abs=0.012)
