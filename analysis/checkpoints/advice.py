"""How often the job saves, and how often it should.

The cost of a save is the median time that saves held training up; a few saves say nothing and give
no advice. How often something fails is the site's knowledge (``thresholds.node_mtbf_h``, divided by
the job's nodes), never guessed: without it the advice is a table for a few values. One job has no
failure rate of its own to tell. The formulas: :mod:`..plan.interval`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median, quantiles

from slurm_io.analysis.batches import NS
from slurm_io.analysis.checkpoints.saves import Save
from slurm_io.analysis.plan.interval import Interval, best_interval, job_mtbf_s, lost_share
from slurm_io.analysis.thresholds import Saves as Limits

_NEAR = 1.25  # an interval within this factor of the best range is as good


@dataclass(frozen=True)
class Option:
    """For one mean time between failures: what is best, and what the present interval loses."""

    best: Interval
    now_lost_share: float

    @property
    def gain(self) -> float:
        """Of all time, what the best interval would save."""
        return self.now_lost_share - self.best.lost_share


@dataclass(frozen=True)
class Advice:
    """`interval_s`: training between two saves now, `interval_steps` as many steps; `saving_share`:
    of the time from save to save, spent in saving. `options`: one where the mean time between
    failures is known (`mtbf_base`), else several. `change_s`: the interval to change to; None where
    none is advised, and `reason` says why."""

    cost_s: float | None
    cost_low_s: float | None
    cost_high_s: float | None
    interval_s: float | None
    interval_steps: float | None
    saving_share: float | None
    mtbf_base: str | None
    options: tuple[Option, ...]
    change_s: float | None
    reason: str | None


def advise(saves: Sequence[Save], nodes: int, is_short: bool, limits: Limits) -> Advice:
    """`saves`: of the unit that saves most, in order of time. `nodes`: of the job."""
    whole = [one for one in saves if not one.failed]
    costs = sorted(one.blocking_s for one in whole)
    if len(whole) < limits.least_saves:
        cost = median(costs) if costs else None
        why = (
            f"{len(whole)} save{'s' * (len(whole) != 1)}: at least {limits.least_saves} are needed"
        )
        return Advice(cost, None, None, None, None, None, None, (), None, why)
    cost, (low, high) = median(costs), _middle(costs)
    gaps = [
        max(0.0, (after.start - before.start) / NS - before.blocking_s)
        for before, after in pairwise(whole)
    ]
    now_s = median(gaps)
    steps = median([after.step - before.step for before, after in pairwise(whole)])
    share = cost / (now_s + cost) if now_s + cost > 0 else None
    if cost <= 0 or now_s <= 0:
        why = "the saves took no time that could be weighed"
        return Advice(cost, low, high, now_s, steps, share, None, (), None, why)
    drains_s = max((one.background_s or 0.0 for one in whole), default=0.0)
    base, mtbfs = _mtbfs(nodes, limits)
    options = tuple(_option(cost, now_s, each, drains_s) for each in mtbfs)
    change: float | None = None
    reason: str | None = None
    if base is None:
        reason = "how often something fails is not known (thresholds.node_mtbf_h)"
    elif is_short:
        reason = "a short run"
    else:
        change, reason = _change(options[0], now_s, (low, high), drains_s, limits)
    return Advice(cost, low, high, now_s, steps, share, base, options, change, reason)


def _middle(costs: Sequence[float]) -> tuple[float, float]:
    """The quartiles."""
    low, _, high = quantiles(costs, n=4, method="inclusive")
    return low, high


def _mtbfs(nodes: int, limits: Limits) -> tuple[str | None, tuple[float, ...]]:
    """Mean times between failures of the job to look at, with their base where it is known."""
    if limits.node_mtbf_s is None:
        return None, limits.mtbf_table_s
    hours = limits.node_mtbf_s / 3600
    base = f"{hours:g} h a node (thresholds.node_mtbf_h), {nodes} node{'s' * (nodes != 1)}"
    return base, (job_mtbf_s(limits.node_mtbf_s, nodes),)


def _option(cost_s: float, now_s: float, mtbf_s: float, drains_s: float) -> Option:
    return Option(
        best_interval(cost_s, mtbf_s, least_s=drains_s), lost_share(now_s, cost_s, mtbf_s)
    )


def _change(
    option: Option,
    now_s: float,
    costs: tuple[float, float],
    drains_s: float,
    limits: Limits,
) -> tuple[float | None, str | None]:
    """The interval to change to, or why the present one may stay. What the saves' own spread leaves
    open is no reason to change."""
    mtbf = option.best.mtbf_s
    ends = [
        best_interval(cost, mtbf, least_s=drains_s).interval_s for cost in costs if cost > 0
    ] or [option.best.interval_s]
    if min(ends) / _NEAR <= now_s <= max(ends) * _NEAR:
        return None, "the present interval is about the best"
    if option.gain < limits.gain:
        return None, f"another interval would save less than {limits.gain:.1%} of the time"
    return option.best.interval_s, None
