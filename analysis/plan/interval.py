"""How often to save a checkpoint: Young's and Daly's intervals, and what any interval loses.

Too often costs saving, too seldom costs the work behind the last save when something fails. With C
the time a save holds training up and M the mean time between failures *of the job* (that of one
node divided by the number of nodes):

- Young 1974: sqrt(2 C M);
- Daly 2006: for C < 2 M, sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + (C / 2M) / 9) - C; else M.

Both are the training time from the end of one save to the beginning of the next. What is lost is
Daly's exact model for failures at random (exponential) times: work of length t takes M exp(R / M)
(exp((t + C) / M) - 1), with R the time a restart takes, so 1 - t over that is lost. Times in
seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_MOST_EXPONENT = 700.0  # exp() of more is no float; nothing ever finishes there


@dataclass(frozen=True)
class Interval:
    """`interval_s`: training between two saves that loses least; `lost_share` of all time is lost
    then, `saving_share` of it in saves themselves. `young_s`, `daly_s`: by the two formulas;
    `interval_s` is Daly's, or longer where saves need longer to drain."""

    cost_s: float
    mtbf_s: float
    interval_s: float
    young_s: float
    daly_s: float
    lost_share: float
    saving_share: float


def young_s(cost_s: float, mtbf_s: float) -> float:
    """Young's interval. ValueError unless both are above 0."""
    _check(cost_s, mtbf_s)
    return math.sqrt(2 * cost_s * mtbf_s)


def daly_s(cost_s: float, mtbf_s: float) -> float:
    """Daly's interval (higher order). ValueError unless both are above 0."""
    _check(cost_s, mtbf_s)
    if cost_s >= 2 * mtbf_s:
        return mtbf_s
    part = cost_s / (2 * mtbf_s)
    return math.sqrt(2 * cost_s * mtbf_s) * (1 + math.sqrt(part) / 3 + part / 9) - cost_s


def lost_share(interval_s: float, cost_s: float, mtbf_s: float, restart_s: float = 0.0) -> float:
    """Share of all time that is lost (saving, work done twice, restarts) with `interval_s` of
    training between saves; 1.0 where nothing would ever finish."""
    _check(cost_s, mtbf_s)
    if interval_s <= 0 or restart_s < 0:
        raise ValueError("an interval must be above 0, a restart not below")
    exponent = (interval_s + cost_s) / mtbf_s
    if max(exponent, restart_s / mtbf_s) > _MOST_EXPONENT:
        return 1.0
    needed = mtbf_s * math.exp(restart_s / mtbf_s) * math.expm1(exponent)
    return 1 - interval_s / needed


def job_mtbf_s(node_mtbf_s: float, nodes: int) -> float:
    """Mean time between failures of a job that stops when any of its nodes does."""
    if node_mtbf_s <= 0 or nodes < 1:
        raise ValueError("a mean time between failures must be above 0, on one node or more")
    return node_mtbf_s / nodes


def best_interval(
    cost_s: float, mtbf_s: float, *, restart_s: float = 0.0, least_s: float = 0.0
) -> Interval:
    """`least_s`: a save in the background needs that long; sooner the next would wait for it."""
    chosen = max(daly_s(cost_s, mtbf_s), least_s)
    return Interval(
        cost_s=cost_s,
        mtbf_s=mtbf_s,
        interval_s=chosen,
        young_s=young_s(cost_s, mtbf_s),
        daly_s=daly_s(cost_s, mtbf_s),
        lost_share=lost_share(chosen, cost_s, mtbf_s, restart_s),
        saving_share=cost_s / (chosen + cost_s),
    )


def _check(cost_s: float, mtbf_s: float) -> None:
    if not (cost_s > 0 and mtbf_s > 0 and math.isfinite(cost_s) and math.isfinite(mtbf_s)):
        raise ValueError("cost and mean time between failures must be above 0")
