"""What a finding cost: GPU hours, and dollars where a price is known, with the formula.

``gpu_hours = share x GPUs x hours`` and ``cost = gpu_hours x price``. The share's base is named: as
a rule the training GPU time of the report's ``idle.base``; what happens before training (loading)
has its own. `low` and `high` are those of the share; null where the cause was timed or counted
without a range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rules.base import Finding, LostBase

FORMULA = "gpu_hours = share x GPUs x hours"
PRICED = "cost = gpu_hours x price"


def training_base(picture: Picture, text: str) -> LostBase:
    """All training GPU time; `text` names it."""
    return LostBase(picture.losses.base_gpu_s, _gpus(picture), text)


def worth(finding: Finding, training: LostBase, price_usd_h: float | None) -> dict[str, Any] | None:
    """``{formula, base, share: {low, value, high}, gpus, hours, gpu_hours: {…}, price_usd_h,
    cost: {…}, text}``, `cost` only with a price; None where the finding names no loss."""
    base = finding.lost_base or training
    if finding.lost_gpu_s is None or base.gpu_s <= 0 or base.gpus <= 0:
        return None
    share = finding.lost_gpu_s / base.gpu_s
    ends = finding.lost_range
    shares = {
        "low": None if ends is None else min(ends.low, share),
        "value": share,
        "high": None if ends is None else max(ends.high, share),
    }
    whole = base.gpu_s / 3600
    hours = _each(shares, lambda one: one * whole, 6)
    priced = price_usd_h is not None
    cost = _each(hours, lambda one: one * (price_usd_h or 0.0), 2) if priced else None
    return {
        "formula": f"{FORMULA}; {PRICED}" if priced else FORMULA,
        "base": base.text,
        "share": _each(shares, lambda one: one, 6),
        "gpus": round(base.gpus, 3),
        "hours": round(whole / base.gpus, 6),
        "gpu_hours": hours,
        "price_usd_h": price_usd_h,
        **({} if cost is None else {"cost": cost}),
        "text": _text(shares, hours, cost, base, price_usd_h),
    }


def _gpus(picture: Picture) -> float:
    """GPUs that trained; where no hook was, by the job's and else one for each rank."""
    if picture.gpus.of_proc:
        return float(sum(picture.gpus.of_proc.values()))
    ranks = picture.by_stacks.looks.ranks if picture.by_stacks is not None else ()
    job = picture.store.job
    on_node = job.gpus_on_node if job is not None else None
    if on_node and on_node > 0:
        return float(on_node * len({rank.node for rank in ranks}))
    return float(len(ranks))


def _each(
    values: dict[str, float | None], change: Callable[[float], float], digits: int
) -> dict[str, float | None]:
    return {
        name: None if value is None else round(change(value), digits)
        for name, value in values.items()
    }


def _text(
    shares: dict[str, float | None],
    hours: dict[str, float | None],
    cost: dict[str, float | None] | None,
    base: LostBase,
    price_usd_h: float | None,
) -> str:
    gpus, each_h = base.gpus, base.gpu_s / 3600 / base.gpus
    plural = "" if gpus == 1 else "s"
    first = (
        f"{shares['value']:.1%} of {gpus:g} GPU{plural} x {_hours(each_h)} = "
        f"{_hours(hours['value'] or 0.0, 'GPU hours')}"
    )
    if hours["low"] is not None and hours["high"] is not None:
        first += f" ({_hours(hours['low'], '')} to {_hours(hours['high'], '')})"
    if cost is None or price_usd_h is None:
        return first
    second = f"; x {price_usd_h:.2f} USD = {cost['value']:.2f} USD"
    if cost["low"] is not None and cost["high"] is not None:
        second += f" ({cost['low']:.2f} to {cost['high']:.2f})"
    return first + second


def _hours(value: float, unit: str = "h") -> str:
    return f"{value:.3g} {unit}".rstrip()
