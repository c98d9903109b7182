"""Young's and Daly's intervals, and the loss at any other."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.analysis.plan.interval import (
    best_interval,
    daly_s,
    job_mtbf_s,
    lost_share,
    young_s,
)

WEEK_S = 168 * 3600.0
COSTS = st.floats(min_value=0.01, max_value=600)
FAILURES = st.floats(min_value=1800, max_value=1e8)


@pytest.mark.parametrize(("nodes", "expected_s"), [(128, 1878.3), (48, 3067.2)])
def test_known_values(nodes: int, expected_s: float) -> None:
    """11.2 s a save; 3 % of the nodes fail in a week."""
    mtbf_s = job_mtbf_s(WEEK_S / 0.03, nodes)
    assert young_s(11.2, mtbf_s) == pytest.approx(expected_s, rel=1e-4)


@given(COSTS, FAILURES)
def test_dalys_interval_loses_no_more_than_any_other(cost_s: float, mtbf_s: float) -> None:
    best = best_interval(cost_s, mtbf_s)
    for factor in (0.2, 0.5, 0.8, 1.25, 2, 5):
        other = lost_share(best.interval_s * factor, cost_s, mtbf_s)
        assert best.lost_share <= other + 0.002


@given(COSTS, FAILURES)
def test_both_formulas_agree_where_failures_are_rare(cost_s: float, mtbf_s: float) -> None:
    if cost_s < mtbf_s / 1000:
        assert daly_s(cost_s, mtbf_s) == pytest.approx(young_s(cost_s, mtbf_s), rel=0.03)


@given(COSTS, FAILURES, st.floats(min_value=1, max_value=1e6), st.floats(0, 3600))
def test_the_loss_is_a_share_and_grows_with_restarts(
    cost_s: float, mtbf_s: float, interval_s: float, restart_s: float
) -> None:
    lost = lost_share(interval_s, cost_s, mtbf_s, restart_s)
    assert cost_s / (interval_s + cost_s) - 1e-9 <= lost <= 1
    assert lost >= lost_share(interval_s, cost_s, mtbf_s) - 1e-12


def test_without_failures_only_saving_is_lost() -> None:
    assert lost_share(990, 10, 1e12) == pytest.approx(0.01, rel=1e-3)


def test_an_interval_of_many_failures_never_ends() -> None:
    assert lost_share(1e9, 1, 60) == 1.0


def test_saves_that_cost_more_than_failures_allow() -> None:
    assert daly_s(1000, 400) == 400


def test_a_save_that_drains_longer_sets_the_interval() -> None:
    assert best_interval(1, 3600, least_s=300).interval_s == 300
    assert best_interval(1, 3600, least_s=3).interval_s == best_interval(1, 3600).daly_s


@pytest.mark.parametrize("bad", [0, -1, math.inf, math.nan])
def test_nonsense_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        young_s(bad, 10)
    with pytest.raises(ValueError, match="above 0"):
        daly_s(10, bad)
    with pytest.raises(ValueError, match="above 0"):
        lost_share(bad if bad <= 0 else -1, 1, 10)


def test_more_nodes_fail_more_often() -> None:
    assert job_mtbf_s(5600 * 3600, 128) == pytest.approx(157500)
    with pytest.raises(ValueError, match="one node or more"):
        job_mtbf_s(3600, 0)
