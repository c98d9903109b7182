"""How many spare nodes a job needs, and whether they pay.

A spare that took over is missing until its slot is covered again (a repaired node, or another one
with the data). In that time R further nodes fail: on average N λ R of N nodes, at random (Poisson)
or in bursts (negative binomial with the variance D times the mean, D > 1). Enough is the smallest
number that is not exceeded with the wanted probability.

Rates are failures per node and week; a week has 168 h. Times in hours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

WEEK_H = 168.0
MOST_EXPECTED = 10_000.0
"""Failures in one cover time; no fleet that trains has more."""


@dataclass(frozen=True)
class Need:
    """`spares` are not exceeded by the failures of `cover_h` with probability `covered_share`, at
    least the `confidence` asked for. `expected` failures in that time. `second_share`: chance that
    one more node fails while one spare is being replaced."""

    cover_h: float
    expected: float
    spares: int
    covered_share: float
    second_share: float


@dataclass(frozen=True)
class Economics:
    """GPU-hours a week. `waiting`: lost when each failure waits `copy_h` for a copy, `swapping`:
    when it waits `swap_h` for a spare; `idle`: what one spare costs, less its useful share.
    `break_even_per_week`: failures from which one spare pays; None: it never does."""

    failures_per_week: float
    waiting_gpu_h: float
    swapping_gpu_h: float
    idle_gpu_h: float
    break_even_per_week: float | None
    lost_work_gpu_h: float | None

    @property
    def saved_gpu_h(self) -> float:
        """What one spare, always ready, is worth beside what it costs."""
        return self.waiting_gpu_h - self.swapping_gpu_h - self.idle_gpu_h


def failures_per_week(nodes: int, rate: float) -> float:
    """Of all nodes together."""
    return nodes * rate


def need(
    nodes: int, rate: float, cover_h: float, confidence: float = 0.99, dispersion: float = 1.0
) -> Need:
    """Spares for one cover time. `rate`: failures per node and week. `dispersion`: variance over
    mean, 1 = Poisson. Raises ValueError for what is no rate, time or probability."""
    if nodes < 1 or rate < 0 or cover_h <= 0:
        raise ValueError("nodes and cover time must be above 0, the rate not below")
    expected = nodes * rate * cover_h / WEEK_H
    spares, share = quantile(expected, confidence, dispersion)
    return Need(cover_h, expected, spares, share, -math.expm1(-expected))


def quantile(expected: float, confidence: float, dispersion: float = 1.0) -> tuple[int, float]:
    """The smallest k with P(X <= k) >= `confidence`, and that probability."""
    if not 0 < confidence < 1:
        raise ValueError("a confidence is above 0 and below 1")
    if not 0 <= expected <= MOST_EXPECTED:
        raise ValueError(f"{expected:g} failures in one cover time: no spares can help")
    total, k = 0.0, -1
    for share in _shares(expected, dispersion):
        total, k = total + share, k + 1
        if total >= confidence:
            break
    return k, min(total, 1.0)


def ready_share(spares: int, expected: float, dispersion: float = 1.0) -> float:
    """Chance that at least one of `spares` is there when a node fails: fewer than that many were
    used up in the cover time before."""
    shares = _shares(expected, dispersion)
    return min(1.0, sum(share for _, share in zip(range(spares), shares, strict=False)))


def economics(
    nodes: int,
    gpus_per_node: int,
    rate: float,
    copy_h: float,
    swap_h: float = 0.0,
    useful_share: float = 0.0,
    save_interval_h: float | None = None,
) -> Economics:
    """`copy_h`: until a replacement node holds the data; `useful_share` of a spare's time runs
    other work; `save_interval_h`: training between checkpoints, half of which is lost each time."""
    if copy_h < 0 or swap_h < 0 or not 0 <= useful_share <= 1 or gpus_per_node < 1:
        raise ValueError("times are not below 0, shares between 0 and 1, GPUs 1 or more")
    gpus = nodes * gpus_per_node
    failures = failures_per_week(nodes, rate)
    idle = WEEK_H * gpus_per_node * (1 - useful_share)
    gain_h = copy_h - swap_h
    return Economics(
        failures_per_week=failures,
        waiting_gpu_h=failures * gpus * copy_h,
        swapping_gpu_h=failures * gpus * swap_h,
        idle_gpu_h=idle,
        break_even_per_week=idle / (gpus * gain_h) if gain_h > 0 else None,
        lost_work_gpu_h=None if save_interval_h is None else failures * gpus * save_interval_h / 2,
    )


def _shares(expected: float, dispersion: float) -> Iterator[float]:
    """P(X = 0), P(X = 1), …; in logarithms, because e^-expected may be no float. Ends where no
    more can be added."""
    if dispersion < 1:
        raise ValueError("a dispersion below 1 is no burst: use 1")
    if expected == 0:
        yield 1.0
        return
    most = int(expected + 60 * math.sqrt(expected * dispersion) + 60 * dispersion)
    for k in range(most + 1):
        yield math.exp(_log_share(k, expected, dispersion))


# Nearer to 1 the log-gammas of expected / (dispersion - 1) are so large that of their difference
# nothing is left.
_POISSON_BELOW = 1e-6


def _log_share(k: int, expected: float, dispersion: float) -> float:
    if dispersion - 1 < _POISSON_BELOW:
        return k * math.log(expected) - expected - math.lgamma(k + 1)
    size = expected / (dispersion - 1)
    ways = math.lgamma(k + size) - math.lgamma(size) - math.lgamma(k + 1)
    return ways - size * math.log(dispersion) + k * math.log1p(-1 / dispersion)
