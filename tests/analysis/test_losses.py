"""What ranks lose: the slowest holds all of a synchronous job, else each loses its own."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.picture import Picture, take_picture
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.stand_in import Job, Rank, one_rank, train, train_together


def picture_of(job: Job) -> Picture:
    return take_picture(job.store(), Thresholds())


def two_ranks(workers: int = 0, **settings: Any) -> list[Rank]:
    return [Rank(i, f"n{i + 1}", 1000 + 10 * i, workers, **settings) for i in range(2)]


def test_one_slow_rank_costs_every_gpu_of_a_synchronous_job() -> None:
    ranks = train_together(
        two_ranks(), 300, 0.05, lambda rank, k: (0.05, "storage") if rank else (0.001, "cpu")
    )
    picture = picture_of(Job(ranks))
    [unit] = picture.losses.units
    assert unit.is_synchronous
    waited_s = 299 * 0.05
    assert picture.losses.by_cause["storage"] == pytest.approx(2 * waited_s, rel=0.03)
    assert picture.data_storage.value == pytest.approx(0.05 / 0.101, abs=0.02)
    assert picture.where.holders[0].node == "n2"
    assert picture.where.holders[0].share > 0.95


def test_waits_at_the_same_time_are_lost_once() -> None:
    ranks = train_together(two_ranks(), 300, 0.05, lambda rank, k: (0.05, "storage"))
    picture = picture_of(Job(ranks))
    assert picture.data_storage.value == pytest.approx(0.05 / 0.101, abs=0.02)


def test_waits_in_turn_add_up_in_a_synchronous_job() -> None:
    """Each rank waits at every second step; together they lose at every step."""
    ranks = train_together(
        two_ranks(), 300, 0.05,
        lambda rank, k: (0.05, "storage") if k % 2 == rank else (0.0, "cpu"),
    )  # fmt: skip
    picture = picture_of(Job(ranks))
    assert picture.data_storage.value == pytest.approx(0.05 / 0.101, abs=0.02)


def test_independent_ranks_lose_their_own() -> None:
    fast, slow = two_ranks()
    train(fast, 600, 0.05, lambda k: (0.001, "cpu"))
    train(slow, 300, 0.05, lambda k: (0.05, "storage"))
    picture = picture_of(Job([fast, slow]))
    assert len(picture.losses.units) == 2
    assert picture.losses.by_cause["storage"] == pytest.approx(299 * 0.05, rel=0.03)


def test_equal_independent_ranks_with_one_spike_are_not_in_lockstep() -> None:
    first, second = two_ranks()
    train(first, 300, 0.05, lambda k: (3.0 if k == 100 else 0.001, "storage"))
    train(second, 300, 0.05, lambda k: (0.001, "storage"))
    assert len(picture_of(Job([first, second])).losses.units) == 2


def test_gpus_of_the_node_count_for_ranks_that_never_read() -> None:
    """One reader on a node of eight GPUs (tensor parallel): all eight wait."""
    rank = train(one_rank(0), 300, 0.05, lambda k: (0.05, "storage"))
    picture = picture_of(Job([rank], gpus_on_node=8))
    assert picture.losses.by_cause["storage"] == pytest.approx(8 * 299 * 0.05, rel=0.03)
    assert picture.data_storage.value == pytest.approx(0.5, abs=0.02)
    assert picture.gpus.total == 8


def test_one_run_after_another_is_two_units() -> None:
    first = train(Rank(0, "n1", 1000, 0), 200, 0.05, lambda k: (0.02, "storage"))
    second = Rank(0, "n1", 2000, 0, now=first.now + 5)
    train(second, 200, 0.05, lambda k: (0.02, "storage"))
    picture = picture_of(Job([first, second]))
    assert len(picture.losses.units) == 2
    assert picture.data_storage.value == pytest.approx(0.02 / 0.07, abs=0.02)


def test_the_longest_save_of_a_step_stops_all() -> None:
    ranks = two_ranks()
    for k in range(200):
        for rank in ranks:
            rank.batch(0.001, "cpu", index=k)
            rank.compute(0.05, step=False)
        last = max(rank.now for rank in ranks)
        for rank in ranks:
            rank.idle_until(last)
            rank.compute(0.001)
        if k % 50 == 25:
            ranks[0].event("ckpt_save", 1.0, path="/scratch/ckpt.pt")
            ranks[1].event("ckpt_save", 0.2, path="/scratch/ckpt.pt")
    picture = picture_of(Job(ranks))
    assert picture.losses.by_cause["ckpt"] == pytest.approx(2 * 4 * 1.0, rel=0.01)


def test_the_holder_decides_the_cause() -> None:
    """Rank 0 prepares for 60 ms while rank 1 reads for 50: without storage nothing is won."""
    ranks = train_together(
        two_ranks(), 300, 0.05, lambda rank, k: (0.05, "storage") if rank else (0.06, "cpu")
    )
    picture = picture_of(Job(ranks))
    assert picture.losses.share("cpu") > 0.5
    assert picture.data_storage.value < 0.01


def test_without_gpu_measurement_queued_work_may_hide_a_wait() -> None:
    rank = train(one_rank(cuda=True), 300, 0.05, lambda k: (0.08, "storage"))
    picture = picture_of(Job([rank]))
    data = picture.data_storage
    assert data.low < 0.03 / 0.13 < data.value
    assert data.value == pytest.approx(0.078 / 0.13, abs=0.02)


def test_measured_gpu_idle_time_is_the_loss() -> None:
    rank = one_rank(cuda=True)
    for k in range(300):
        rank.batch(0.08, "storage", index=k, gpu_idle_s=0.02)
        rank.compute(0.05)
    picture = picture_of(Job([rank]))
    # The last 2 ms of the wait, in which the GPU stood still too, are the hand-over.
    assert picture.data_storage.value == pytest.approx(0.018 / 0.13, abs=0.005)
    assert not picture.is_unmeasured


def test_a_wait_without_workers_that_the_gpu_may_hide_is_halved() -> None:
    rank = train(one_rank(0, cuda=True), 300, 0.05, lambda k: (0.04, "storage"))
    picture = picture_of(Job([rank]))
    assert picture.data_storage.low == 0
    assert picture.data_storage.value == pytest.approx(0.02 / 0.09, abs=0.01)
    assert picture.storage_confidence == "likely"


def test_helpers_of_a_loader_without_workers_explain_its_locks() -> None:
    """A download pool in a child process: the rank sits in a futex, the child in a read."""
    job = Job([train(one_rank(0), 300, 0.05, lambda k: (0.05, "lock"))])
    store = job.store()
    waits = store.nodes["n1"].tables["waits"]
    for row in [row for row in waits if row["phase"] == "data_wait"]:
        waits.append(
            {**row, "role": "worker", "n_lock": 0, "n_storage": row["passes"], "mount": "/scratch"}
        )
    picture = take_picture(store, Thresholds())
    assert picture.data_storage.value == pytest.approx(0.5, abs=0.02)
