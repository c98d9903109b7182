"""Which processes are one synchronous group: several in one job, late, uneven, restarted ones."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.analysis.picture import Picture, take_picture
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.groups import meet, ranks_on, skew
from tests.analysis.stand_in import Job, Rank, StandInStore, train


def picture_of(ranks: list[Rank], **settings: Any) -> Picture:
    return take_picture(store_of(ranks, **settings), Thresholds())


def store_of(ranks: list[Rank], worlds: dict[int, int] | None = None, **more: Any) -> StandInStore:
    """`worlds`: pid -> what the process says of its world's size; nothing where it is not named."""
    store = Job(ranks, **more).store()
    for node in store.nodes.values():
        for rank in node.meta["ranks"]:
            rank["world_size"] = (worlds or {}).get(rank["pid"])
    return store


def groups_of(picture: Picture) -> list[list[int | None]]:
    by_proc = picture.timeline.by_proc
    found = [[by_proc[proc].rank for proc in unit.procs] for unit in picture.losses.units]
    return sorted(found, key=str)


def noisy(seed: int, scale: float = 0.1) -> Any:
    """0.05 s of work, a tenth more or less."""
    dice = random.Random(seed)
    return lambda place, batch: 0.05 * dice.uniform(1 - scale, 1 + scale)


def waits(seed: int, mean_s: float = 0.01) -> Any:
    dice = random.Random(seed)
    return lambda place, batch: dice.expovariate(1 / mean_s)


@settings(max_examples=5)  # each lays out a whole store
@given(st.integers(0, 2**31))
def test_several_trainings_in_one_job_are_several_groups(seed: int) -> None:
    """Four ranks on two nodes, and two others beside them: nobody said how large a world is."""
    first, second = ranks_on(4, 2), ranks_on(2, 1, first=4)
    meet(first, 150, noisy(seed), waits(seed + 1))
    meet(second, 150, noisy(seed + 2), waits(seed + 3))
    assert groups_of(picture_of([*first, *second])) == [[0, 1, 2, 3], [4, 5]]


def test_a_sweep_of_equal_trainings_is_as_many_groups() -> None:
    """Each numbers its ranks from 0: the same rank twice is never one group."""
    trainings = [[Rank(n, "n1", 1000 * t + n, 0) for n in range(2)] for t in range(1, 5)]
    for seed, ranks in enumerate(trainings):
        meet(ranks, 200, noisy(seed), waits(seed + 9))
    assert groups_of(picture_of([rank for ranks in trainings for rank in ranks])) == [[0, 1]] * 4


def test_worlds_of_different_sizes_are_not_one_group_even_at_one_pace() -> None:
    ranks = ranks_on(3)
    meet(ranks, 100, lambda place, batch: 0.05)
    picture = take_picture(store_of(ranks, {1000: 2, 1010: 2, 1020: 4}), Thresholds())
    assert groups_of(picture) == [[0, 1], [2]]


def test_ranks_that_said_that_they_are_alone_are() -> None:
    ranks = ranks_on(2)
    meet(ranks, 100, lambda place, batch: 0.05)
    picture = take_picture(store_of(ranks, {1000: 1, 1010: 1}), Thresholds())
    assert groups_of(picture) == [[0], [1]]


def test_a_rank_that_joined_late_is_in_the_group() -> None:
    """Its counter began at 0 when the others had made 70 steps."""
    old, late = ranks_on(2), Rank(2, "n1", 5000, 0)
    meet(old, 70, noisy(1), waits(2))
    late.now = old[0].now
    meet([*old, late], 200, noisy(3), waits(4), first_step=70)
    picture = picture_of([*old, late])
    [unit] = picture.losses.units
    assert len(unit.procs) == 3
    assert unit.shifts == {picture.timeline.processes[2].proc: 70}
    whole = picture.losses.unit_steps.filter(picture.losses.unit_steps["members"] == 3)
    assert whole["step"].min() == 71  # its first batch is start-up


def test_a_step_more_or_less_parts_nobody() -> None:
    ranks = ranks_on(2)
    meet(ranks, 150, noisy(5), waits(6))
    for k in range(2):
        ranks[0].batch(0.001, "cpu", index=150 + k)
        ranks[0].compute(0.05)
    assert groups_of(picture_of(ranks)) == [[0, 1]]


def test_a_run_and_its_restart_are_two_groups() -> None:
    first = ranks_on(2)
    meet(first, 120, noisy(7), waits(8))
    second = [Rank(n, "n1", 3000 + n, 0, now=first[0].now + 8) for n in range(2)]
    meet(second, 120, noisy(9), waits(10))
    assert groups_of(picture_of([*first, *second])) == [[0, 1], [0, 1]]


def test_a_restart_does_not_keep_step_with_what_was_before() -> None:
    """Rank 0 alone made the first run, rank 1 the second, at exactly one pace."""
    first = train(Rank(0, "n1", 1000, 0), 150, 0.05, lambda k: (0.002, "cpu"))
    second = Rank(1, "n2", 2000, 0, now=first.now + 3)
    train(second, 150, 0.05, lambda k: (0.002, "cpu"))
    assert groups_of(picture_of([first, second])) == [[0], [1]]


@settings(max_examples=5)
@given(st.integers(0, 2**31), st.floats(-3, 3))
def test_clocks_of_nodes_that_differ_part_nobody(seed: int, fast_s: float) -> None:
    ranks = ranks_on(2, 2)
    meet(ranks, 150, noisy(seed), waits(seed + 1))
    skew(ranks[1], fast_s)
    assert groups_of(picture_of(ranks)) == [[0, 1]]


def test_accumulated_gradients_part_nobody() -> None:
    ranks = ranks_on(2, 2)
    meet(ranks, 60, noisy(11), waits(12), batches=4)
    picture = picture_of(ranks)
    assert groups_of(picture) == [[0, 1]]
    assert picture.losses.unit_steps.height == 60


def test_of_many_independent_trainings_none_passes_for_a_group_by_chance() -> None:
    """Two dozen alike, 120 steps each, nothing told: of 276 pairs some drift little."""
    ranks = [Rank(None, f"n{n % 4}", 1000 + n, 0, now=100 + n / 7) for n in range(24)]
    for seed, rank in enumerate(ranks):
        dice = random.Random(seed)
        for k in range(120):
            rank.batch(0.001, "cpu", index=k)
            rank.compute(0.1 * dice.uniform(0.9, 1.1))
    picture = picture_of(ranks, waits=False)
    assert len(picture.losses.units) == 24
