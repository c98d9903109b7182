"""What may be said of an interval when only rounded means since the start are known."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slurm_io.filesystems.mean_since_load import (
    HARMLESS_ERROR_NS,
    LARGEST_ERROR_SHARE,
    MeanSoFar,
    interval_mean_ns,
)

US = 1000


def rounded(ops: int, total_ns: int) -> MeanSoFar:
    """As a client shows it: to the nearest whole µs."""
    mean_us = round(Fraction(total_ns, ops * US)) if ops else 0
    return MeanSoFar(ops, mean_us * US, US)


def test_no_operation_has_no_mean() -> None:
    same = MeanSoFar(10, 5 * US, US)
    assert interval_mean_ns([(same, same)]) is None
    assert interval_mean_ns([]) is None


def test_a_difference_below_the_rounding_is_unknown() -> None:
    before, now = MeanSoFar(10**9, 800 * US, US), MeanSoFar(10**9 + 1000, 800 * US, US)
    assert interval_mean_ns([(before, now)]) is None


def test_the_clients_own_drift_counts() -> None:
    pair = (MeanSoFar(0, 0, 0), MeanSoFar(100, 1000 * US, US))
    assert interval_mean_ns([pair]) == 1000 * US
    assert interval_mean_ns([pair], drift_ns=500 * US) is None


@given(
    ops=st.integers(0, 10**7),
    more=st.integers(1, 10**6),
    before_ns=st.integers(0, 10**9),
    during_ns=st.integers(0, 10**9),
)
def test_what_is_said_is_true_within_its_bounds(
    ops: int, more: int, before_ns: int, during_ns: int
) -> None:
    """Whatever was rounded away, the true mean of the interval is as near as promised."""
    before = rounded(ops, ops * before_ns)
    now = rounded(ops + more, ops * before_ns + more * during_ns)
    said = interval_mean_ns([(before, now)])
    assume(said is not None)
    assert said is not None
    allowed = max(HARMLESS_ERROR_NS, LARGEST_ERROR_SHARE * said)
    assert abs(said - during_ns) <= allowed * 1.001 + 1


def test_several_counters_are_one_mean() -> None:
    pairs = [
        (MeanSoFar(0, 0, US), MeanSoFar(100, 1000 * US, US)),
        (MeanSoFar(0, 0, US), MeanSoFar(300, 2000 * US, US)),
    ]
    assert interval_mean_ns(pairs) == pytest.approx(1750 * US)
