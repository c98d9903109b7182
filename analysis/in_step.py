"""Whether two processes keep step: do their optimizer steps begin together, whoever waits?

Joined by optimizer step, with ``D`` the difference of their step starts and ``C`` the difference
of what each had lost by itself until then:

- in lockstep ``D`` stays within a band: a collective gives back what one of them lost. Trained
  independently, ``D = C + R`` with ``R`` what their own work differed, and it wanders;
- so they keep step when 90 % of ``D`` lie within half a step of its median, and ``D`` does not
  wander like independent times do, ever further the longer one looks. Where ``C`` wandered twice
  as far as ``D`` nothing else is asked: it was given back.

Counts may differ: a process that joined late or made a step more is joined at a constant shift of
step numbers, found by the clock. A constant difference of two nodes' clocks cancels; a steady drift
of up to 500 ppm is taken out. Both must have trained at the same time, else the second run of the
same training would keep step with the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from statistics import NormalDist, median

import polars as pl

from slurm_io.analysis.batches import NS
from slurm_io.analysis.thresholds import Lockstep

_DRIFT = 500e-6  # what two free running clocks differ at the most
_QUANTILE = 0.9
_LEAST_WANDERING = 40  # common steps; fewer cannot show whether a difference wanders
_LAG = 4
_MOST_RATIO = 0.6  # of the variance over so many steps that a random walk would have
_CHANCE = 0.02  # that independent processes pass for one group
_WIDE = 0.02  # of a step, standard deviation over _LAG steps: less is of no account
_OF_THE_SAME_NODE_STEPS = 3.0
_MARKS, _GLANCE = 16, 0.6  # a glance: how many steps, and how near in steps


@dataclass(frozen=True)
class Beats:
    """Optimizer steps of one process, in order: step, at (ns), gross_s, own_s (lost until then).

    `at` is UTC; of processes of one node all by the same clock.
    """

    node: str
    frame: pl.DataFrame

    @cached_property
    def ends(self) -> tuple[int, int]:
        """First step and last step; of a frame with rows."""
        return int(self.frame["step"][0]), int(self.frame["step"][-1])

    @cached_property
    def marks(self) -> tuple[int, ...]:
        """Starts of evenly spread rows, from the first on."""
        every = max(1, self.frame.height // _MARKS)
        return tuple(self.frame["at"].gather_every(every).to_list())

    @cached_property
    def usual_s(self) -> float:
        """Median step."""
        return median_of(self.frame["gross_s"])


def beats_of(steps: pl.DataFrame, node: str) -> Beats:
    """From one process's rows of :func:`.steps.find_steps` with `own_s` and `at`."""
    ordered = steps.select("step", "at", "gross_s", "own_s").sort("step")
    until = pl.col("own_s").cum_sum() - pl.col("own_s")
    return Beats(node, ordered.with_columns(until.alias("own_s")))


def shift_by_clock(mine: Beats, other: Beats) -> int:
    """What most of my step numbers lack to the other's nearest in time; 0 when none is near."""
    near = mine.frame.select("step", "at").sort("at").join_asof(
        other.frame.select("at", other="step").sort("at"), on="at", strategy="nearest"
    )  # fmt: skip
    modes = (near["other"] - near["step"]).drop_nulls().mode().sort()
    return int(modes[0]) if len(modes) else 0


def looks_apart(mine: Beats, other: Beats) -> float:
    """A glance, for a sweep has hundreds of groups: how far a few steps lie from their median
    distance, as a rule, in steps; inf where it is too far for any group, 0.3 where not known."""
    if mine.frame.is_empty() or other.frame.is_empty():
        return inf
    if mine.ends != other.ends or mine.frame.height != other.frame.height:
        return 0.3
    apart = [one - two for one, two in zip(mine.marks, other.marks, strict=True)]
    middle = median(apart)
    drift_ns = 2 * _DRIFT * (mine.marks[-1] - mine.marks[0])
    usual_ns = max(mine.usual_s, other.usual_s, 1e-9) * NS
    far = sorted(max(0.0, abs(one - middle) - drift_ns) for one in apart)[int(0.6 * len(apart))]
    return far / usual_ns if far <= _GLANCE * usual_ns else inf


def keeps_step(mine: Beats, other: Beats, shift: int, limits: Lockstep, others: int = 1) -> bool:
    """Whether we keep step when `shift` is added to my step numbers; the other is one of `others`
    that I might keep step with."""
    both = _side_by_side(mine, other, shift)
    enough = max(limits.min_common_steps, limits.min_common_share * mine.frame.height)
    if both.height < enough:
        return False
    usual_ns = median_of(both["gross_s_other"]) * NS
    apart = (both["at"] - both["at_other"]).cast(pl.Float64)
    if not _at_one_time(apart, both["at_other"], usual_ns, mine.node == other.node):
        return False
    lost = (both["own_s"] - both["own_s_other"]) * NS
    if mine.node != other.node:
        apart = _without_drift(apart, both["at_other"])
    return _stays(apart, lost, usual_ns, limits, others)


def _side_by_side(mine: Beats, other: Beats, shift: int) -> pl.DataFrame:
    """Rows of the same steps, the other's columns with ``_other``."""
    first, last = mine.ends
    whole = mine.frame.height == other.frame.height == last - first + 1
    if whole and not shift and mine.ends == other.ends:  # as a rule, and a join costs most of it
        theirs = other.frame.drop("step").rename(lambda name: f"{name}_other")
        return pl.concat([mine.frame, theirs], how="horizontal")
    return mine.frame.with_columns(pl.col("step") + shift).join(
        other.frame, on="step", suffix="_other", maintain_order="left"
    )


def _at_one_time(apart: pl.Series, at: pl.Series, usual_ns: float, same_clock: bool) -> bool:
    """One node has one clock; between nodes it may be off by less than half of what we share."""
    middle = abs(median_of(apart))
    if same_clock:
        return middle <= _OF_THE_SAME_NODE_STEPS * usual_ns
    return middle <= 0.5 * (int(at[-1]) - int(at[0]))


def _without_drift(apart: pl.Series, at: pl.Series) -> pl.Series:
    """A straight line through the medians of the first and the last third is taken out."""
    third = len(apart) // 3
    if third < _LEAST_WANDERING // 4:
        return apart
    span = float(median_of(at[-third:].cast(pl.Float64)) - median_of(at[:third].cast(pl.Float64)))
    rate = (median_of(apart[-third:]) - median_of(apart[:third])) / span if span > 0 else 0.0
    if not 0 < abs(rate) <= _DRIFT:
        return apart
    return apart - (at - int(at[0])).cast(pl.Float64) * rate


def _stays(
    apart: pl.Series, lost: pl.Series, usual_ns: float, limits: Lockstep, others: int
) -> bool:
    spread = _within(apart)
    if spread > limits.start_jitter_steps * usual_ns:
        return False
    if _within(lost) >= 2 * max(spread, 1.0):
        return True
    return len(apart) < _LEAST_WANDERING or not _wanders(apart, usual_ns, others)


def _wanders(apart: pl.Series, usual_ns: float, others: int) -> bool:
    """Whether the difference goes the further the longer one looks, as independent times do.

    Variance over four steps by four times that over one: 1 for a random walk, with the error that
    so many steps leave (Lo and MacKinlay, 1988), a quarter for independent jitter. Of many groups
    to choose from one fits by chance, so more is asked then. Single jumps are cut off.
    """
    moves = apart.diff().drop_nulls()
    moves = moves.clip(float(moves.quantile(0.01) or 0), float(moves.quantile(0.99) or 0))
    near, far = _variance(moves), _variance(moves.rolling_sum(_LAG).drop_nulls())
    if far <= (_WIDE * usual_ns) ** 2:
        return False
    error = (2 * (2 * _LAG - 1) * (_LAG - 1) / (3 * _LAG * len(moves))) ** 0.5
    by_chance = 1 - NormalDist().inv_cdf(1 - _CHANCE / max(1, others)) * error
    return bool(far > min(_MOST_RATIO, by_chance) * _LAG * near)


def _variance(moves: pl.Series) -> float:
    found = moves.var()
    return float(found) if isinstance(found, (int, float)) else 0.0


def _within(series: pl.Series) -> float:
    return float((series - median_of(series)).abs().quantile(_QUANTILE) or 0.0)


def median_of(series: pl.Series) -> float:
    """Of numbers; 0 where there are none."""
    middle = series.median()
    return float(middle) if isinstance(middle, (int, float)) else 0.0
