"""Spares by Poisson and negative binomial: known values, and what must hold for any numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.analysis.plan.spares import economics, need, quantile, ready_share

RATE = 0.03  # of the nodes in a week
WEEK = 168.0


@pytest.mark.parametrize(
    ("nodes", "cover_h", "spares"),
    [
        (48, 1.5, 1),
        (48, 3, 1),
        (48, 24, 2),
        (48, 72, 3),
        (48, WEEK, 5),
        (48, 2 * WEEK, 7),
        (511, 24, 6),
        (511, WEEK, 25),
        (511, 2 * WEEK, 44),
        (511, 5 * WEEK, 98),
    ],
)
def test_known_needs(nodes: int, cover_h: float, spares: int) -> None:
    assert need(nodes, RATE, cover_h).spares == spares


@pytest.mark.parametrize(("cover_h", "share"), [(1.5, 0.013), (3, 0.025), (24, 0.186)])
def test_a_second_failure_while_one_spare_is_replaced(cover_h: float, share: float) -> None:
    assert need(48, RATE, cover_h).second_share == pytest.approx(share, abs=0.0005)


@pytest.mark.parametrize(
    ("copy_h", "waiting", "break_even"), [(1.5, 829.4, 2.333), (3.0, 1658.9, 1.167)]
)
def test_known_economics(copy_h: float, waiting: float, break_even: float) -> None:
    """48 nodes of 8 GPUs: an idle spare pays with copies of 3 h, not with copies of 1.5 h."""
    found = economics(48, 8, RATE, copy_h)
    assert found.failures_per_week == pytest.approx(1.44)
    assert found.waiting_gpu_h == pytest.approx(waiting, abs=0.1)
    assert found.idle_gpu_h == 1344
    assert found.break_even_per_week == pytest.approx(break_even, abs=0.001)
    assert (found.saved_gpu_h > 0) == (copy_h == 3.0)


def test_useful_work_on_the_spare_makes_it_pay() -> None:
    assert economics(48, 8, RATE, 1.5, useful_share=0.5).saved_gpu_h > 0


def test_a_swap_that_takes_as_long_as_a_copy_never_pays() -> None:
    assert economics(48, 8, RATE, 0.2, swap_h=0.2).break_even_per_week is None


def test_lost_work_is_half_an_interval_of_all_gpus_a_failure() -> None:
    found = economics(48, 8, RATE, 1.5, save_interval_h=1.0)
    assert found.lost_work_gpu_h == pytest.approx(1.44 * 384 / 2)


@given(
    st.floats(min_value=0.001, max_value=500),
    st.floats(min_value=0.5, max_value=0.9999),
    st.floats(min_value=1, max_value=20),
)
def test_enough_is_enough_and_no_more(
    expected: float, confidence: float, dispersion: float
) -> None:
    spares, share = quantile(expected, confidence, dispersion)
    assert share >= confidence
    fewer = ready_share(spares, expected, dispersion)  # P(X <= spares - 1)
    assert fewer < confidence
    assert fewer <= share + 1e-12


@pytest.mark.parametrize("dispersion", [1.0000000000000002, 1 + 1e-12, 1 + 1e-7, 1 + 2e-6])
def test_next_to_no_bursts_is_as_without(dispersion: float) -> None:
    spares, share = quantile(40.0, 0.99, dispersion)
    assert (spares, share) == (quantile(40.0, 0.99)[0], pytest.approx(quantile(40.0, 0.99)[1]))


@given(st.floats(min_value=0.05, max_value=200), st.floats(min_value=1.01, max_value=10))
def test_bursts_need_no_fewer_spares(expected: float, dispersion: float) -> None:
    assert quantile(expected, 0.99, dispersion)[0] >= quantile(expected, 0.99)[0]


@given(st.floats(min_value=0.1, max_value=300), st.floats(min_value=1.05, max_value=8))
def test_the_negative_binomial_has_the_mean_and_variance_it_says(
    expected: float, dispersion: float
) -> None:
    from slurm_io.analysis.plan.spares import _shares

    shares = list(_shares(expected, dispersion))
    mean = math.fsum(k * share for k, share in enumerate(shares))
    variance = math.fsum((k - mean) ** 2 * share for k, share in enumerate(shares))
    assert math.fsum(shares) == pytest.approx(1, abs=1e-6)
    assert mean == pytest.approx(expected, rel=1e-4)
    assert variance == pytest.approx(dispersion * expected, rel=1e-3)


def test_a_dispersion_near_1_is_the_poisson_one() -> None:
    assert quantile(2.88, 0.99, 1.0001)[0] == quantile(2.88, 0.99)[0]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: need(0, RATE, 24),
        lambda: need(48, -1, 24),
        lambda: need(48, RATE, 0),
        lambda: need(48, RATE, 24, confidence=1.0),
        lambda: need(48, RATE, 24, dispersion=0.5),
        lambda: need(10**6, 1e3, 1e6),
        lambda: economics(48, 8, RATE, -1),
        lambda: economics(48, 8, RATE, 1, useful_share=1.5),
    ],
)
def test_what_cannot_be_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="."):
        wrong()  # type: ignore[operator]
