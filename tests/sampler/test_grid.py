"""Ticks on the grid, passes between them, with a clock of our own."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.sampler.grid import Grid, Passes


def test_ticks_keep_to_the_grid_whatever_a_tick_takes() -> None:
    grid = Grid(100.0, 1.0)
    for now_s in (101.02, 102.05, 103.0):
        assert grid.deadline_s == int(now_s)
        grid.take(now_s)
    assert (grid.ticks, grid.late_ticks, grid.missed_ticks) == (3, 0, 0)
    assert grid.late_max_s == pytest.approx(0.05)


def test_a_late_tick_is_counted_and_the_next_one_is_not_moved() -> None:
    grid = Grid(0.0, 1.0)
    grid.take(1.4)
    assert (grid.late_ticks, grid.missed_ticks, grid.deadline_s) == (1, 0, 2.0)


def test_missed_ticks_are_skipped_and_never_bunched() -> None:
    grid = Grid(0.0, 1.0)
    grid.take(4.5)
    assert (grid.ticks, grid.late_ticks, grid.missed_ticks) == (1, 1, 3)
    assert grid.deadline_s == 5.0
    assert grid.late_max_s == pytest.approx(3.5)


def passes_until(end_s: float, hz: float, seed: int = 1) -> list[float]:
    """Moments of all passes when the loop always wakes in time."""
    passes = Passes(0.0, hz, random.Random(seed).random)
    moments = []
    while passes.deadline_s < end_s:
        moments.append(passes.deadline_s)
        passes.take(passes.deadline_s)
    return moments


@given(st.integers(0, 1000), st.sampled_from([1.0, 2.0, 5.0, 10.0]))
def test_each_slot_has_one_pass(seed: int, hz: float) -> None:
    moments = passes_until(20.0, hz, seed)
    assert len(moments) == int(20 * hz)
    assert all(int(moment * hz + 1e-9) == k for k, moment in enumerate(moments))


def test_passes_do_not_alias_with_a_step_as_long_as_their_slot() -> None:
    phases = [moment % 0.1 for moment in passes_until(100.0, 10.0)]
    assert sum(phase < 0.02 for phase in phases) / len(phases) == pytest.approx(0.2, abs=0.05)


def test_passes_missed_by_a_long_sleep_are_not_made_up_for() -> None:
    passes = Passes(0.0, 10.0, lambda: 0.5)
    passes.take(3.06)
    assert passes.deadline_s == pytest.approx(3.15) or passes.deadline_s == pytest.approx(3.05)
    passes.take(3.07)
    assert passes.deadline_s > 3.07


def test_another_rate_begins_at_once() -> None:
    passes = Passes(0.0, 10.0, lambda: 0.5)
    passes.set_rate(2.0, 7.0)
    assert passes.deadline_s == pytest.approx(7.25)
