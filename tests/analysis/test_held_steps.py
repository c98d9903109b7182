"""What a synchronous group loses, against the definition: time with the waits less time without."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.analysis.picture import Picture, take_picture
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.groups import Truth, meet, ranks_on
from tests.analysis.rules.stores import Row, put
from tests.analysis.stand_in import Job, Rank

SEEDS = st.integers(0, 2**31)
few = settings(max_examples=5)  # each lays out a whole store


def picture_of(ranks: list[Rank], **settings: Any) -> Picture:
    return take_picture(Job(ranks, **settings).store(), Thresholds())


def storage_s(picture: Picture) -> float:
    return picture.losses.by_cause["storage"]


def within(picture: Picture, truth: Truth, gpus: float) -> bool:
    """Whether the range of the storage share holds the truth, a tenth of a point aside."""
    share = truth.lost_s * gpus / picture.losses.base_gpu_s
    return picture.data_storage.low - 0.001 <= share <= picture.data_storage.high + 0.001


def uneven(seed: int, mean_s: float = 0.02) -> Any:
    """Exponential waits, another for each rank and batch."""
    dice = random.Random(seed)
    table: dict[tuple[int, int], float] = {}
    return lambda place, batch: table.setdefault((place, batch), dice.expovariate(1 / mean_s))


@few
@given(SEEDS, st.integers(2, 5))
def test_the_longest_wait_of_each_step_is_lost_on_all_gpus(seed: int, count: int) -> None:
    ranks = ranks_on(count, count)
    truth = meet(ranks, 150, lambda place, batch: 0.05, uneven(seed))
    picture = picture_of(ranks)
    assert storage_s(picture) == pytest.approx(truth.lost_s * count, rel=0.03)
    assert within(picture, truth, count)


@few
@given(SEEDS)
def test_one_exchange_a_step_adds_the_waits_of_its_batches_up(seed: int) -> None:
    ranks = ranks_on(3, 3)
    truth = meet(ranks, 60, lambda place, batch: 0.05, uneven(seed), batches=4)
    picture = picture_of(ranks)
    assert storage_s(picture) == pytest.approx(truth.lost_s * 3, rel=0.03)


@few
@given(SEEDS)
def test_an_exchange_a_batch_takes_the_longest_of_each(seed: int) -> None:
    """Parameters gathered for every batch: the sum of maxima, not the maximum of sums."""
    ranks = ranks_on(3, 3)
    waits = uneven(seed)
    truth = meet(ranks, 60, lambda place, batch: 0.05, waits, batches=4, meets_each_batch=True)
    of_sums = sum(max(sum(waits(r, 4 * k + part) for part in range(4)) for r in range(3))
                  for k in range(1, 60))  # fmt: skip
    picture = picture_of(ranks)
    assert truth.lost_s > 1.1 * of_sums
    assert storage_s(picture) == pytest.approx(truth.lost_s * 3, rel=0.03)
    assert picture.losses.unit_steps.height == 60


def test_independent_groups_are_summed() -> None:
    first, second = ranks_on(2), ranks_on(3, 1, first=2)
    one = meet(first, 200, lambda place, batch: 0.05, uneven(1))
    other = meet(second, 150, lambda place, batch: 0.07, uneven(2))
    picture = picture_of([*first, *second])
    assert len(picture.losses.units) == 2
    assert storage_s(picture) == pytest.approx(2 * one.lost_s + 3 * other.lost_s, rel=0.03)


def test_what_all_wait_is_lost_for_certain() -> None:
    """Whoever works longest: each of them waited 30 ms first."""
    ranks = ranks_on(3)
    meet(ranks, 200, lambda place, batch: 0.05 + 0.05 * (place == 2), lambda place, batch: 0.03)
    picture = picture_of(ranks)
    assert picture.data_storage.low > 0.9 * 0.03 / 0.131


def steady_or_not(seed: int) -> Any:
    """30 to 50 ms for all but the last rank, which reads from its own memory."""
    dice = random.Random(seed)
    return lambda place, batch: 0.001 if place == 3 else dice.uniform(0.03, 0.05)


def one_works_longer(seed: int) -> tuple[list[Rank], Truth]:
    """Ranks 0 to 2 wait for 40 ms and work 50; rank 3 works 120: nobody waits for the data."""
    ranks = ranks_on(4, 4)
    truth = meet(ranks, 250, lambda place, batch: 0.05 + 0.07 * (place == 3), steady_or_not(seed))
    return ranks, truth


def test_waits_behind_another_ranks_longer_work_may_have_cost_nothing() -> None:
    """The steps are as long whatever the holder waits, so the low end says nothing was lost."""
    ranks, truth = one_works_longer(1)
    picture = picture_of(ranks)
    assert truth.lost_s == pytest.approx(0.25, abs=0.01)
    assert within(picture, truth, 4)
    assert picture.data_storage.low < 0.01


def test_stacks_that_find_the_holder_in_a_collective_take_it_off() -> None:
    ranks, truth = one_works_longer(2)
    store = Job(ranks).store()
    for number, rank in enumerate(ranks):
        waiting = 0 if number == 3 else 25  # of 100 looks: 30 ms of 121
        seen: list[Row] = looks(rank, waiting)
        put(store, "stacks", partial(always, seen), node=rank.node)
    picture = take_picture(store, Thresholds())
    charged = storage_s(picture) / (0.04 * 249 * 4)
    assert charged < 0.45
    assert within(picture, truth, 4)


def always(rows: list[Row], second: int) -> list[Row]:
    return rows


def looks(rank: Rank, waiting: int) -> list[dict[str, Any]]:
    """100 of them, so many in a collective."""
    base = {"rank": rank.number, "pid": rank.pid, "role": "rank"}
    return [
        {**base, "state": state, "samples": number, "certain": number}
        for state, number in (("collective", waiting), ("compute", 100 - waiting))
    ]


def test_a_slow_rank_whose_waits_vary_is_known_to_cost_them() -> None:
    """Nobody else waits, yet the steps grow with its waits: the low end stays near the value."""
    ranks = ranks_on(4, 4)
    dice = random.Random(3)

    def wait(place: int, batch: int) -> float:
        return dice.uniform(0.02, 0.06) if place == 1 else 0.001

    truth = meet(ranks, 250, lambda place, batch: 0.05, wait)
    picture = picture_of(ranks)
    assert within(picture, truth, 4)
    assert picture.data_storage.low > 0.75 * picture.data_storage.value


def test_a_rank_missing_from_a_step_is_not_taken_for_one_that_waited() -> None:
    """Rank 1 trains, but its batches are lost on the way: the least wait is not known."""
    ranks = ranks_on(2, 2)
    meet(ranks, 200, lambda place, batch: 0.05, lambda place, batch: 0.03 * (place == 0))
    ranks[1].rows = [row for row in ranks[1].rows if row["step"] < 150]
    losses = picture_of(ranks).losses
    alone = losses.unit_steps.filter(losses.unit_steps["members"] == 1)
    assert alone.height >= 49
    assert alone["least_s"].max() == 0.0
