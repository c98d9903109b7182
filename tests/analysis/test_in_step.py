"""Whether two processes keep step: simulated clocks, together and apart, with everything random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from math import inf

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.analysis.in_step import Beats, keeps_step, looks_apart, shift_by_clock
from slurm_io.analysis.thresholds import Lockstep

NS = 10**9
START = 1_760_000_000 * NS
LIMITS = Lockstep()


def beats(node: str, starts_s: Sequence[float], own_s: Sequence[float], first: int = 0) -> Beats:
    """Steps that begin at these times and lose these by themselves; the last one has no length."""
    frame = pl.DataFrame(
        {
            "step": range(first, first + len(starts_s) - 1),
            "at": [START + round(one * NS) for one in starts_s[:-1]],
            "gross_s": [b - a for a, b in pairwise(starts_s)],
            "own_s": list(own_s[: len(starts_s) - 1]),
        }
    )
    until = pl.col("own_s").cum_sum() - pl.col("own_s")
    return Beats(node, frame.with_columns(until.alias("own_s")))


def trained(
    seed: int,
    steps: int,
    together: bool,
    *,
    spread: float = 0.1,
    wait_s: float = 0.03,
    jitter_s: float = 0.002,
    clock_s: float = 0.0,
    drift: float = 0.0,
    nodes: tuple[str, str] = ("n1", "n2"),
) -> tuple[Beats, Beats]:
    """Two processes of 0.1 s steps whose work differs by `spread`, with exponential waits."""
    dice = random.Random(seed)
    now = [100.0, 100.0]
    waits: list[list[float]] = [[], []]
    starts: list[list[float]] = [[], []]
    for _ in range(steps + 1):
        for place in (0, 1):
            late = dice.uniform(0, jitter_s)
            waited = dice.expovariate(1 / wait_s) if wait_s else 0.0
            skew = (clock_s + drift * (now[1] - 100.0)) if place else 0.0
            starts[place].append(now[place] + late + skew)
            waits[place].append(waited)
            now[place] += late + waited + 0.1 * dice.uniform(1 - spread, 1 + spread)
        if together:
            now = [max(now)] * 2
    return beats(nodes[0], starts[0], waits[0]), beats(nodes[1], starts[1], waits[1])


SEEDS = st.integers(0, 2**31)


@given(SEEDS, st.integers(60, 400), st.sampled_from([0.0, 0.002, 0.03]))
def test_processes_that_meet_every_step_keep_step(seed: int, steps: int, wait_s: float) -> None:
    mine, other = trained(seed, steps, True, wait_s=wait_s)
    assert looks_apart(mine, other) < 0.1
    assert keeps_step(mine, other, 0, LIMITS)


@given(SEEDS, st.integers(150, 500), st.sampled_from([0.0, 0.002, 0.03]))
def test_processes_that_never_meet_do_not(seed: int, steps: int, wait_s: float) -> None:
    """A tenth of a step of noise a step: after 150 of them it is far more than a tenth in all."""
    assert not keeps_step(*trained(seed, steps, False, spread=0.3, wait_s=wait_s), 0, LIMITS)


@given(SEEDS, st.floats(-5, 5))
def test_a_constant_clock_difference_cancels(seed: int, clock_s: float) -> None:
    assert keeps_step(*trained(seed, 200, True, clock_s=clock_s), 0, LIMITS)


@settings(max_examples=5)
@given(SEEDS, st.floats(-400e-6, 400e-6))
def test_a_steady_clock_drift_is_taken_out(seed: int, drift: float) -> None:
    """400 ppm of 20 minutes are half a second: five steps."""
    assert keeps_step(*trained(seed, 9000, True, drift=drift, wait_s=0.03), 0, LIMITS)


def test_on_one_node_there_is_one_clock() -> None:
    apart = trained(1, 200, True, clock_s=1.0, nodes=("n1", "n1"))
    assert not keeps_step(*apart, 0, LIMITS)


def test_one_run_after_another_does_not_keep_step_with_it() -> None:
    """The same steps at the same pace, a minute later."""
    first, _ = trained(1, 200, True)
    _, second = trained(1, 200, True, clock_s=60.0)
    assert not keeps_step(second, first, 0, LIMITS)


@given(SEEDS, st.integers(1, 120))
def test_one_that_joined_late_is_found_by_the_clock(seed: int, late: int) -> None:
    mine, other = trained(seed, 300, True, wait_s=0.005)
    joined = Beats("n2", other.frame.slice(late).with_columns(pl.col("step") - late))
    assert shift_by_clock(joined, mine) == late
    assert keeps_step(joined, mine, late, LIMITS)


@given(SEEDS, st.sampled_from([1, 2]))
def test_a_step_more_or_less_does_not_part_them(seed: int, more: int) -> None:
    mine, other = trained(seed, 200, True)
    shorter = Beats("n2", other.frame.head(200 - more))
    assert keeps_step(shorter, mine, 0, LIMITS)
    assert looks_apart(shorter, mine) < inf


def test_late_steps_of_one_rank_do_not_part_them() -> None:
    """Rank 0 writes a log for 60 ms every tenth step, between the exchange and its next batch."""
    mine, other = trained(3, 300, True, wait_s=0.0)
    late = pl.when(pl.col("step") % 10 == 5).then(60_000_000).otherwise(0)
    logging = Beats("n1", mine.frame.with_columns(pl.col("at") + late))
    assert keeps_step(logging, other, 0, LIMITS)


def test_a_glance_tells_processes_of_another_pace_apart() -> None:
    slow = beats("n1", [100 + 0.2 * k for k in range(300)], [0.0] * 300)
    fast = beats("n1", [100 + 0.1 * k for k in range(300)], [0.0] * 300)
    assert looks_apart(slow, fast) == inf


def test_too_few_common_steps_say_nothing() -> None:
    mine, other = trained(1, 200, True)
    assert not keeps_step(mine, Beats("n2", other.frame.head(9)), 0, LIMITS)
