"""Two runs of the same thing are called different in at most 6 % of cases; real ones are found.

Every comparison is of five figures at once, and a call is any of them. Seeds are fixed.
"""

from __future__ import annotations

import math

import pytest

from slurm_io.analysis.compare import difference
from tests.analysis.compare.series import Run, judged

REPEATS = 150


def share_of_calls(a: Run, b: Run, name: str | None = None) -> float:
    """Of REPEATS comparisons, those in which any figure (or the one named) is beyond its noise."""
    calls = 0
    for seed in range(REPEATS):
        found = judged(a, b, seed)
        wanted = found.values() if name is None else [found[name]]
        calls += any(one.difference is not None and one.difference.beyond_noise for one in wanted)
    return calls / REPEATS


@pytest.mark.parametrize(
    "run",
    [
        Run(300),
        Run(300, alike=0.6, spikes=0.02),
        Run(1000, alike=0.9, save_every=50),
        Run(1000, alike=0.6, spikes=0.02, save_every=50),
        Run(1000, alike=0.97, spread=0.1),
    ],
    ids=str,
)
def test_the_same_thing_twice_is_no_difference(run: Run) -> None:
    """The floor of 2 % is not what keeps them quiet: it is not applied here."""
    assert share_of_calls(run, run) <= 0.06


def test_a_tenth_slower_is_found_in_a_thousand_steps() -> None:
    """With 20 % spread and neighbours alike by 0.6."""
    a = Run(1000, alike=0.6)
    assert share_of_calls(a, Run(1000, alike=0.6, slower=1.1), "step_mean") >= 0.95


def test_a_tenth_slower_is_mostly_found_in_three_hundred_steady_steps() -> None:
    assert share_of_calls(Run(300), Run(300, slower=1.1), "step_mean") >= 0.95


def test_the_smallest_difference_named_is_found_about_as_often_as_it_says() -> None:
    a = Run(1000, alike=0.6)
    named = [judged(a, a, seed)["step_mean"].difference for seed in range(20)]
    smallest = sum(one.smallest for one in named if one is not None) / len(named)
    assert 0.02 < smallest < 0.1
    b = Run(1000, alike=0.6, slower=1 + smallest)
    assert difference.POWER - 0.15 <= share_of_calls(a, b, "step_mean") <= 0.97


def test_the_interval_holds_the_truth() -> None:
    """95 % for all figures together, so nearly always for one."""
    a, b = Run(600, alike=0.6), Run(600, alike=0.6, slower=1.3)
    held = 0
    for seed in range(60):
        gap = judged(a, b, seed)["step_mean"].difference
        assert gap is not None
        held += gap.low <= 0.3 * 0.98 and gap.high >= 0.3 * 0.97  # waits of 10 ms do not slow down
    assert held >= 56


def test_noise_shrinks_with_the_root_of_the_length() -> None:
    sizes = []
    for steps in (1000, 4000):
        gap = judged(Run(steps, alike=0.6), Run(steps, alike=0.6), 1)["step_mean"].difference
        assert gap is not None
        sizes.append(gap.high - gap.low)
    assert sizes[0] / sizes[1] == pytest.approx(2, rel=0.4)


def test_alike_neighbours_are_worth_fewer_steps() -> None:
    """n steps with correlation r are worth n (1 - r) / (1 + r) independent ones."""
    gaps = [
        judged(Run(4000, alike=alike), Run(4000, alike=alike), 3)["step_mean"].difference
        for alike in (0.0, 0.9)
    ]
    assert gaps[0] is not None
    assert gaps[1] is not None
    ratio = (gaps[1].high - gaps[1].low) / (gaps[0].high - gaps[0].low)
    assert ratio == pytest.approx(math.sqrt(19), rel=0.4)
