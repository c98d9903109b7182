"""The difference of one figure between two runs: proven, or the smallest that would have been."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from slurm_io.analysis.compare.noise import Interval, Noisy, student

POWER = 0.8  # how often the smallest difference named would have been seen
# Runs of one job in the same place differ by half a per cent and more though each is steady in
# itself: what is less than this is called of no account, however sure.
LEAST_RELATIVE = 0.02
LEAST_POINTS = 0.01
_POWER_Z = NormalDist().inv_cdf(POWER)


@dataclass(frozen=True)
class Difference:
    """B against A: a share of A (0.1 = 10 % more) where `relative`, else B - A.

    `smallest`: what would have been seen with probability `POWER`; None where nothing bounds it.
    """

    value: float
    low: float
    high: float
    smallest: float
    relative: bool

    @property
    def least(self) -> float:
        """What is less is of no account."""
        return LEAST_RELATIVE if self.relative else LEAST_POINTS

    @property
    def beyond_noise(self) -> bool:
        """The interval does not hold "no difference"."""
        return self.low > 0 or self.high < 0

    @property
    def proven(self) -> bool:
        """Beyond the noise, and large enough to be of account."""
        return self.beyond_noise and abs(self.value) >= self.least


def of_means(a: Noisy, b: Noisy, relative: bool, alpha: float) -> Difference | str:
    """By Welch's test, relative ones on logarithms."""
    if relative and (a.value <= 0 or b.value <= 0):
        return "it is 0 in one run: a relative difference has no meaning"
    scale_a, scale_b = (a.value, b.value) if relative else (1.0, 1.0)
    parts = ((a.error / scale_a) ** 2, (b.error / scale_b) ** 2)
    if sum(parts) <= 0:
        return "its noise is not known: it never varied"
    freedom = sum(parts) ** 2 / sum(
        part**2 / (each.slices - 1) for part, each in zip(parts, (a, b), strict=True)
    )
    middle = math.log(b.value / a.value) if relative else b.value - a.value
    error, critical = math.sqrt(sum(parts)), student(1 - alpha / 2, freedom)
    return _difference(
        middle, critical * error, critical * error, (critical + _POWER_Z) * error, relative
    )


def of_quantiles(a: Interval, b: Interval, alpha: float) -> Difference | str:
    """By joining the two intervals (MOVER), on logarithms."""
    for name, one in (("A", a), ("B", b)):
        if one.low is None or one.high is None or one.low <= 0:
            return f"too few steps beyond it in {name} to bound it"
    log_a, log_b = _logs(a), _logs(b)
    down = math.hypot(log_b[1] - log_b[0], log_a[2] - log_a[1])
    up = math.hypot(log_b[2] - log_b[1], log_a[1] - log_a[0])
    critical = student(1 - alpha / 2, min(a.slices, b.slices) - 1)
    smallest = (down + up) / 2 * (1 + _POWER_Z / critical)
    return _difference(log_b[1] - log_a[1], down, up, smallest, True)


def _difference(
    middle: float, down: float, up: float, smallest: float, relative: bool
) -> Difference:
    values = (middle, middle - down, middle + up, smallest)
    if relative:
        values = tuple(math.expm1(min(each, 50.0)) for each in values)  # type: ignore[assignment]
    return Difference(*values, relative)


def _logs(one: Interval) -> tuple[float, float, float]:
    assert one.low is not None
    assert one.high is not None
    return math.log(one.low), math.log(one.value), math.log(one.high)
