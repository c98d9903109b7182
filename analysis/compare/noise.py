"""How far a figure of one run can be trusted, from the run itself: batch means over slices.

Steps that follow one another are alike (a slow server stays slow for a while), so n steps are worth
fewer than n independent ones. The run is cut into slices of equal training time, and the figure's
error is taken from how much the slices differ; what is left of the dependence between neighbouring
slices widens it. Slices start at 64 and are joined while neighbours still depend on each other;
below 10 nothing is said. (Batch means: Law and Kelton, Simulation Modeling and Analysis; quantiles:
by the share of steps below, turned back into times. Joining two intervals into one of the
difference: Zou and Donner 2008.)

What differs from one run to the next, other jobs and other nodes among it, is in no single run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import polars as pl

MOST_SLICES = 64
FEWEST_SLICES = 10
STEPS_IN_A_SLICE = 10
FEWEST_ROWS = FEWEST_SLICES * STEPS_IN_A_SLICE
FEWEST_EVENTS = 10
_DEPENDENT = 2.0  # standard errors of a correlation of none


@dataclass(frozen=True)
class Noisy:
    """A figure with its standard error from `slices` slices; `value` is of the whole run.

    `events`: rows in which there was anything of it.
    """

    value: float
    error: float
    slices: int
    events: int


@dataclass(frozen=True)
class Interval:
    """Low and high are None where the run cannot bound that side."""

    value: float
    low: float | None
    high: float | None
    slices: int


def ratio(rows: pl.DataFrame) -> Noisy | str:
    """Sum of `y` over sum of `x`, rows in order of time; `progress` grows along the run.

    Returns a reason where the rows are too few or the slices never become independent.
    """
    if rows.height < FEWEST_ROWS:
        return f"too short: {rows.height} of at least {FEWEST_ROWS} values"
    count = min(MOST_SLICES, rows.height // STEPS_IN_A_SLICE)
    while True:
        found, correlation = _by_slices(rows, count)
        if correlation <= 1 / math.sqrt(count) or count // 2 < FEWEST_SLICES:
            break
        count //= 2
    if correlation > _DEPENDENT / math.sqrt(found.slices):
        return "it drifts: tenths of the run still depend on one another"
    return found


def quantile(times: pl.Series, progress: pl.Series, level: float, alpha: float) -> Interval | str:
    """The `level` quantile of `times` and its interval of confidence 1 - `alpha`."""
    value = None if times.is_empty() else times.quantile(level, "linear")
    if value is None:
        return f"too short: 0 of at least {FEWEST_ROWS} values"
    below = pl.DataFrame(
        {"y": (times <= value).cast(pl.Float64), "x": pl.repeat(1.0, len(times), eager=True),
         "progress": progress}
    )  # fmt: skip
    share = ratio(below)
    if isinstance(share, str):
        return share
    half = student(1 - alpha / 2, share.slices - 1) * share.error
    low = times.quantile(level - half, "linear") if level - half > 0 else None
    high = times.quantile(level + half, "linear") if level + half < 1 - 1 / len(times) else None
    return Interval(value, low, high, share.slices)


def _by_slices(rows: pl.DataFrame, count: int) -> tuple[Noisy, float]:
    """The ratio with its error from `count` slices, and how alike neighbouring slices are."""
    total = float(rows["progress"].max() or 0.0)  # type: ignore[arg-type]
    place = (pl.col("progress") / total * count).ceil().clip(1, count)
    sums = rows.group_by(place.alias("slice")).agg(pl.col("x", "y").sum()).sort("slice")
    x, y = sums["x"].to_list(), sums["y"].to_list()
    value = sum(y) / sum(x) if sum(x) > 0 else 0.0
    events = int((rows["y"] != 0).sum())
    rest = [b - value * a for a, b in zip(x, y, strict=True)]
    squares = sum(each * each for each in rest)
    if squares <= 0 or len(x) < 2:
        return Noisy(value, 0.0, len(x), events), 0.0
    alike = sum(a * b for a, b in pairwise(rest)) / squares
    widened = min(max(alike, 0.0), 0.8)
    variance = squares / (len(x) - 1) / len(x) * (1 + widened) / (1 - widened)
    return Noisy(value, math.sqrt(variance) / (sum(x) / len(x)), len(x), events), alike


def student(p: float, freedom: float) -> float:
    """Quantile of Student's t: Abramowitz and Stegun 26.7.5, within 0.5 % from 5 degrees on."""
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom ** (place + 1) for place, term in enumerate(terms))
