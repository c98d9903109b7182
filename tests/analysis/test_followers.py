"""One rank reads for all and broadcasts: its wait is charged once, and to nobody else."""

from __future__ import annotations

import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.followers import find_followers
from slurm_io.analysis.picture import Picture, take_picture
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.stand_in import Job, Rank, StandInStore


def dispatched(
    cause: str = "cpu", seen_as: str = "net", later_s: float = 0.003, steps: int = 250
) -> StandInStore:
    """Rank 0's two workers are seen in `cause` for 40 ms a step; the others, in the broadcast, in
    `seen_as`, and for a little longer."""
    ranks = [Rank(number, "n1", 1000 + 10 * number, 2 if number == 0 else 0) for number in range(4)]
    for k in range(steps):
        for rank in ranks:
            late = later_s if rank.number else 0.0
            rank.batch(
                0.5 if k == 0 else 0.04 + late, cause if rank is ranks[0] else seen_as, index=k
            )
            rank.compute(0.05, step=False)
        last = max(rank.now for rank in ranks)
        for rank in ranks:
            rank.idle_until(last)
            rank.compute(0.001)
    return Job(ranks).store()


def picture_of(store: StandInStore) -> Picture:
    return take_picture(store, Thresholds())


@pytest.mark.parametrize("seen_as", ["net", "lock", "other"])
def test_a_broadcast_is_no_object_store(seen_as: str) -> None:
    report = analyse_store(dispatched(seen_as=seen_as))
    assert report["verdict"] == "cpu-prep"
    assert report["idle"]["data_storage"] == 0
    assert report["idle"]["storage"]["high"] < 0.03


def test_what_the_reader_waits_for_is_lost_once_on_all_gpus() -> None:
    picture = picture_of(dispatched("storage"))
    assert picture.losses.by_cause["storage"] == pytest.approx(4 * 249 * 0.038, rel=0.05)
    assert {one.rank for one in picture.where.holders} == {0}
    assert picture.where.net_share == 0


def test_ranks_that_read_themselves_follow_nobody() -> None:
    ranks = [Rank(number, "n1", 1000 + 10 * number, 0) for number in range(3)]
    for k in range(200):
        for rank in ranks:
            rank.batch(0.04, "storage", index=k)
            rank.compute(0.05)
    picture = picture_of(Job(ranks).store())
    assert find_followers(picture.causes, picture.losses.units) == frozenset()


def test_an_object_store_that_every_rank_reads_from_is_one() -> None:
    """No workers, no files: but nobody reads for them either."""
    ranks = [Rank(number, "n1", 1000 + 10 * number, 0) for number in range(3)]
    for k in range(200):
        for rank in ranks:
            rank.batch(0.04, "net", index=k)
            rank.compute(0.05)
    assert analyse_store(Job(ranks).store())["verdict"] == "storage"


def test_a_rank_that_waits_at_other_times_follows_nobody() -> None:
    """Rank 1 has its own object store; only rank 0 has workers."""
    ranks = [Rank(number, "n1", 1000 + 10 * number, 2 * (number == 0)) for number in range(2)]
    for k in range(200):
        ranks[0].batch(0.04 if k % 2 else 0.001, "storage", index=k)
        ranks[1].batch(0.001 if k % 2 else 0.04, "net", index=k)
        for rank in ranks:
            rank.compute(0.05, step=False)
        last = max(rank.now for rank in ranks)
        for rank in ranks:
            rank.idle_until(last)
            rank.compute(0.001)
    picture = picture_of(Job(ranks).store())
    assert find_followers(picture.causes, picture.losses.units) == frozenset()
    assert picture.losses.by_cause["net"] > 0
