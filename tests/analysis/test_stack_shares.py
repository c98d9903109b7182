"""Shares by stacks: the truth lies in the interval, whatever the run looks like between windows."""

from __future__ import annotations

import random
from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.analysis.stack_shares import (
    Group,
    Together,
    missed,
    of_all,
    ratio,
    student,
    widened,
)

State = Callable[[float], bool]
HZ, WINDOW_S = 10, 5
RUNS = 60


def steady(chance: random.Random, share: float) -> State:
    """Steps of 0.3 s, each with a wait of about `share` of it at its start."""
    offset = chance.random()
    jitter = [chance.uniform(0.5, 1.5) for _ in range(997)]

    def waits(at: float) -> bool:
        step, within = divmod(at + offset, 0.3)
        return within < 0.3 * share * jitter[int(step) % 997]

    return waits


def spiky(chance: random.Random, share: float) -> State:
    """A stall every 4 s."""
    offset = chance.uniform(0, 4)
    return lambda at: (at + offset) % 4 < 4 * share


def episodes(length_s: float) -> Callable[[random.Random, float], State]:
    """Now and then nothing but waiting for some time."""

    def made(chance: random.Random, share: float) -> State:
        slots = [chance.random() < share for _ in range(4000)]
        return lambda at: slots[int(at / length_s) % len(slots)]

    return made


def whole(state: State, length_s: float) -> float:
    """The truth: the share of the run, looked at in no rhythm of the steps."""
    points = int(length_s / 0.0271)
    return sum(state((k + 0.5) * 0.0271) for k in range(points)) / points


def windows(chance: random.Random, state: State, length_s: float, every_s: float) -> pl.DataFrame:
    """What windows of 5 s in each `every_s` show."""
    rows: list[tuple[int, int, float, float]] = []
    start = chance.uniform(0, every_s - WINDOW_S)
    while start + WINDOW_S <= length_s:
        at = [start + (k + chance.random()) / HZ for k in range(HZ * WINDOW_S)]
        rows.append((0, len(rows), float(len(at)), float(sum(map(state, at)))))
        start += every_s
    return pl.DataFrame(
        rows, schema=["proc", "window", "looks", "wait"], orient="row"
    ).with_columns(pl.lit(0).alias("to"))


KINDS = {
    "steady": steady, "spiky": spiky, "episodes of 20 s": episodes(20),
    "episodes of a minute": episodes(60),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("share", [0.02, 0.08, 0.4])
@pytest.mark.parametrize(("length_s", "every_s"), [(170, 27), (900, 27)])
def test_the_truth_is_in_the_interval(
    kind: str, share: float, length_s: float, every_s: float
) -> None:
    held = 0
    for run in range(RUNS):
        chance = random.Random(f"{kind} {share} {run}")
        state = KINDS[kind](chance, share)
        seen = windows(chance, state, length_s, every_s)
        found = of_all(alone(seen, length_s), ["wait"], (0, 1.0))
        held += found.low <= whole(state, length_s) <= found.high
    assert held >= 0.95 * RUNS, f"{held} of {RUNS}"


def alone(parts: pl.DataFrame, length_s: float) -> Group:
    at = parts.height * WINDOW_S / length_s
    return Group((parts,), "one", missed(parts.height, at))


def several(together: Together, *shares: float, count: int = 20) -> Group:
    """Ranks whose windows all show these shares."""
    frames = [
        pl.DataFrame({"proc": place, "window": range(count), "looks": 50.0, "wait": 50.0 * share,
                      "to": 0})
        for place, share in enumerate(shares)
    ]  # fmt: skip
    return Group(tuple(frames), together, missed(count * len(shares), 0.0))


def test_windows_that_differ_make_the_interval_wider_than_as_many_looks_do() -> None:
    alike = pl.DataFrame({"looks": [50.0] * 12, "wait": [15.0] * 12})
    differing = pl.DataFrame({"looks": [50.0] * 12, "wait": [0.0, 30.0] * 6})
    assert ratio(alike, ["wait"]).value == ratio(differing, ["wait"]).value == pytest.approx(0.3)
    one, other = ratio(alike, ["wait"]), ratio(differing, ["wait"])
    assert other.high - other.low > 3 * (one.high - one.low)


def test_one_window_says_nothing_of_how_sure_it_is() -> None:
    found = ratio(pl.DataFrame({"looks": [50.0], "wait": [15.0]}), ["wait"])
    assert found.value == pytest.approx(0.3)
    assert (found.low, found.high) == (0.0, 1.0)


def test_what_no_window_hit_is_allowed_for() -> None:
    """Six windows hit what takes two fifths of the time with 95 %; a hundred what takes 3 %."""
    assert missed(6, 0.0) == pytest.approx(0.393, abs=0.001)
    assert missed(100, 0.0) == pytest.approx(0.0295, abs=0.001)
    assert missed(6, 1.0) == 0.0, "everything was looked at"
    assert missed(0, 0.0) == 1.0


def test_students_quantiles() -> None:
    """Printed tables."""
    known = {1: 12.706, 2: 4.303, 3: 3.182, 5: 2.571, 10: 2.228, 30: 2.042, 1000: 1.962}
    for freedom, value in known.items():
        assert student(freedom) == pytest.approx(value, rel=0.012)
    assert student(5, 0.99) == pytest.approx(4.032, rel=0.015)


def test_ranks_on_their_own_lose_the_mean() -> None:
    group = several("apart", 0.4, 0.0)
    found = of_all(group, ["wait"], group.holder(["wait"]))
    assert found.value == pytest.approx(0.2)
    assert found.high < 0.4


def test_ranks_in_step_lose_what_the_one_that_waits_most_loses() -> None:
    group = several("in step", 0.4, 0.0, 0.0, 0.0)
    holder = group.holder(["wait"])
    found = of_all(group, ["wait"], holder)
    assert holder[0] == 0
    assert found.value == pytest.approx(0.4, abs=0.001)
    assert found.low <= 0.4 <= found.high


def test_a_rank_of_one_window_takes_nothing_from_another_and_holds_nobody() -> None:
    group = several("in step", 0.0, 0.4)
    few = group.parts[0].head(1)
    for parts, holder in (((few, group.parts[1]), 1), ((group.parts[1], few), 0)):
        place, factor = Group(parts, "in step", group.unseen).holder(["wait"])
        assert (place, factor) == (holder, pytest.approx(1.0))


def test_ranks_in_step_may_lose_the_sum_and_no_more() -> None:
    """Each holds the others at another time: nobody saw that they wait at one time."""
    group = several("in step", 0.2, 0.2, 0.2)
    found = of_all(group, ["wait"], group.holder(["wait"]))
    assert found.value == pytest.approx(0.2, abs=0.001)
    assert 0.6 <= found.high < 0.75


def test_where_nobody_knows_the_interval_covers_both() -> None:
    group = several("not known", 0.3, 0.1)
    found = of_all(group, ["wait"], group.holder(["wait"]))
    assert found.value == pytest.approx(0.2)
    assert found.low <= 0.2 and found.high >= 0.4


def test_the_largest_of_many_alike_ranks_does_not_stray_upwards() -> None:
    """Sixteen ranks lose 3 % each; the windows of one of them show 8 % by chance."""
    off = []
    for run in range(60):
        chance = random.Random(run)
        frames = [
            pl.DataFrame({
                "proc": place, "window": range(6), "looks": 50.0, "to": 0,
                "wait": [float(sum(chance.random() < 0.03 for _ in range(50))) for _ in range(6)],
            })
            for place in range(16)
        ]  # fmt: skip
        group = Group(tuple(frames), "in step", 0.0)
        off.append(of_all(group, ["wait"], group.holder(["wait"])).value - 0.03)
    assert sum(off) / len(off) < 0.01
    assert max(off) < 0.04


@given(
    st.lists(st.tuples(st.integers(1, 50), st.floats(0, 1)), max_size=30),
    st.floats(0, 1),
)
def test_any_windows_give_an_interval_that_holds_its_value(
    rows: list[tuple[int, float]], unseen: float
) -> None:
    parts = pl.DataFrame(
        {"looks": [float(looks) for looks, _ in rows], "wait": [n * share for n, share in rows]},
        schema={"looks": pl.Float64, "wait": pl.Float64},
    )
    found = ratio(parts, ["wait"])
    wide = widened(found.low, found.value, found.high, unseen)
    assert 0 <= wide.low <= wide.value <= wide.high <= 1
    assert wide.low <= found.low + 1e-12 and wide.high >= found.high - 1e-12
