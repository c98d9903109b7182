"""Shares of training by stacks, with intervals that windows allow.

A share is the looks that showed something over all looks of a rank's training. How sure it is
depends on how much *windows* differ, not on how many looks they have: looks of one window resemble
one another (variance of a ratio over clusters, Student's t for few windows, as an effective number
of looks in Wilson's interval). What happens in rare episodes may have been missed by every window:
of K windows, each a random moment, something that took more than 1 - 0.05^(1/K) of the time was hit
at least once with 95 %. That much of the time nobody looked at is added to the interval.

Ranks together. Independent ranks lose the mean of what each loses. Ranks in step wait for one
another: what one waits for data, the others stand in a collective, often unseen (those of the
backward pass run in native threads). They lose at least what the rank that waits most loses, for it
loses that itself, and at most the sum over all ranks. The least is taken as the value: more could
not be shown. The mean of a rank with few windows strays, and the largest of many strays upwards, so
means are drawn towards that of all ranks as far as chance explains their differences. Where nobody
knows whether the ranks go in step, the value is the mean, which they lose either way, and the
interval reaches to the sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import polars as pl

from slurm_io.analysis.bounds import Range
from slurm_io.analysis.shares import wilson

Together = Literal["one", "apart", "in step", "not known"]
_MISSED = 0.05
_FEWEST_OF_A_RANK = 3  # windows; with fewer a rank's own mean says nothing


@dataclass(frozen=True)
class Ratio:
    """`value` of all looks, its standard error between windows, and its interval without what
    windows may have missed."""

    value: float
    error: float
    low: float
    high: float
    windows: int


def ratio(parts: pl.DataFrame, names: Sequence[str], confidence: float = 0.95) -> Ratio:
    """Share of `names` in the windows `parts` (looks and a column for each name)."""
    windows = parts.height
    looks = float(parts["looks"].sum())
    if windows == 0 or looks <= 0:
        return Ratio(0.0, 1.0, 0.0, 1.0, 0)
    hits = parts.select(pl.sum_horizontal(names).cast(pl.Float64)).to_series()
    value = min(1.0, max(0.0, float(hits.sum()) / looks))
    if windows == 1:
        return Ratio(value, 1.0, 0.0, 1.0, 1)
    spread = float(((hits - value * parts["looks"]) ** 2).sum()) * windows / (windows - 1)
    error = math.sqrt(spread) / looks
    # Two imagined looks, one of each kind, keep the yardstick off zero.
    near = (float(hits.sum()) + 1) / (looks + 2)
    alike = near * (1 - near) / looks
    effective = looks / max(1.0, error**2 / alike)
    low, high = wilson(value, effective, student(windows - 1, confidence))
    return Ratio(value, error, low, high, windows)


def student(freedom: int, confidence: float = 0.95) -> float:
    """Two-sided quantile of Student's t (Abramowitz and Stegun 26.7.5 from 3 degrees on)."""
    if freedom <= 2:
        tail = 1 - confidence
        if freedom == 1:
            return 1 / math.tan(math.pi * tail / 2)
        return math.sqrt(2 / (tail * (2 - tail)) - 2)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def missed(windows: int, looked_at: float) -> float:
    """Share of the time that no window may have hit, `looked_at` of it having been looked at."""
    if windows <= 0:
        return 1.0
    rare: float = 1 - _MISSED ** (1 / windows)
    return rare * (1 - min(1.0, max(0.0, looked_at)))


def widened(low: float, value: float, high: float, unseen: float) -> Range:
    """An interval of what was looked at, as one of the whole time, `unseen` of which may be
    anything."""
    least, most = low * (1 - unseen), high * (1 - unseen) + unseen
    return Range(max(0.0, min(value, least)), value, min(1.0, max(value, most)))


@dataclass(frozen=True)
class Group:
    """All ranks of a job, as :func:`of_all` needs them: the windows of each, in its own frame."""

    parts: tuple[pl.DataFrame, ...]
    together: Together
    unseen: float

    def holder(self, names: Sequence[str]) -> tuple[int, float]:
        """(place, factor): the rank that waits most, and what of its share is taken as true."""
        values = [ratio(each, names) for each in self.parts]
        drawn = _drawn_together(values)
        # Of ranks whose means are drawn to one, the one with most looks behind it.
        place = max(
            range(len(values)),
            key=lambda at: (_says(values[at]), drawn[at], values[at].value),
        )
        own = values[place].value
        return place, (drawn[place] / own if own > 0 else 1.0)


def of_all(group: Group, names: Sequence[str], holder: tuple[int, float]) -> Range:
    """Share of the ranks' training time lost to `names`. `holder`: of :meth:`Group.holder`."""
    each = [ratio(parts, names) for parts in group.parts]
    mean = sum(one.value for one in each) / len(each)
    pooled = ratio(_balanced(group.parts), names)
    if group.together in ("one", "apart"):
        return widened(
            min(mean, pooled.low), mean, max(mean, pooled.high), group.unseen
        )  # fmt: skip
    most = min(1.0, sum(one.value for one in each) + _up(each))
    if group.together == "not known":
        return widened(min(mean, pooled.low), mean, most, group.unseen)
    place, factor = holder
    value = min(1.0, each[place].value * factor)
    # One of several was picked: its own interval must hold for all of them at once.
    own = ratio(group.parts[place], names, 1 - 0.05 / len(each))
    least = max(pooled.low, own.low if own.windows >= _FEWEST_OF_A_RANK else 0.0)
    return widened(min(value, least), value, max(value, most), group.unseen)


def _up(each: Sequence[Ratio]) -> float:
    """How much more than their sum the ranks' shares may be, together."""
    return math.sqrt(sum((one.high - one.value) ** 2 for one in each if one.windows > 0))


def _balanced(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """All windows, each rank with the same weight: as many looks as the mean rank has."""
    total = [float(each["looks"].sum()) for each in parts]
    mean = sum(total) / len(total)
    return pl.concat(
        [
            each.select(pl.exclude("proc", "window", "to") * (mean / looks if looks > 0 else 0.0))
            for each, looks in zip(parts, total, strict=True)
        ],
        how="vertical_relaxed",
    )


def _drawn_together(values: Sequence[Ratio]) -> list[float]:
    """The ranks' shares, nearer to their mean as far as windows vary (empirical Bayes); those of
    few windows are the mean."""
    sound = [one for one in values if _says(one)] or values
    mean = sum(one.value for one in sound) / len(sound)
    if len(sound) == 1:
        return [mean] * len(values)
    between = sum((one.value - mean) ** 2 for one in sound) / (len(sound) - 1)
    chance = sum(min(one.error, 0.5) ** 2 for one in sound) / len(sound)
    kept = max(0.0, 1 - chance / between) if between > 0 else 0.0
    return [mean + (kept if _says(one) else 0.0) * (one.value - mean) for one in values]


def _says(one: Ratio) -> bool:
    return one.windows >= _FEWEST_OF_A_RANK
