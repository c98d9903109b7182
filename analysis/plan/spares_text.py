"""``slurm-io plan spares``: the numbers, and their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slurm_io.analysis.plan.spares import WEEK_H, economics, failures_per_week, need

_ROUNDS_UP = 0.99995
USUAL_COVERS_H = (3.0, 24.0, 72.0, WEEK_H, 2 * WEEK_H)


@dataclass(frozen=True)
class Fleet:
    """`rate`: failures per node and week, `rate_base`: where it is from. `dispersion`: variance of
    the failures in one cover time over their mean."""

    nodes: int
    rate: float
    rate_base: str
    confidence: float = 0.99
    dispersion: float = 1.0


@dataclass(frozen=True)
class Prices:
    """`copies_h`: times until a replacement holds the data, one option each. `price`: USD of one
    GPU-hour, None = not known."""

    gpus_per_node: int
    copies_h: Sequence[float]
    swap_h: float = 0.0
    useful_share: float = 0.0
    price: float | None = None
    save_interval_h: float | None = None


def compute(fleet: Fleet, covers_h: Sequence[float], prices: Prices) -> dict[str, Any]:
    """``{nodes, rate, rate_base, confidence, dispersion, failures_per_week, job_mtbf_h, model,
    needs: [...], economics: [...]}``. Shares are probabilities; GPU-hours are per week."""
    weekly = failures_per_week(fleet.nodes, fleet.rate)
    return {
        "nodes": fleet.nodes,
        "rate": fleet.rate,
        "rate_base": fleet.rate_base,
        "confidence": fleet.confidence,
        "dispersion": fleet.dispersion,
        "model": "Poisson" if fleet.dispersion == 1 else "negative binomial",
        "failures_per_week": weekly,
        "job_mtbf_h": WEEK_H / weekly if weekly else None,
        "needs": [_need(fleet, cover_h) for cover_h in covers_h],
        "economics": [_option(fleet, prices, copy_h) for copy_h in prices.copies_h],
    }


def _need(fleet: Fleet, cover_h: float) -> dict[str, float | int]:
    found = need(fleet.nodes, fleet.rate, cover_h, fleet.confidence, fleet.dispersion)
    return {
        "cover_h": cover_h,
        "expected": round(found.expected, 6),
        "spares": found.spares,
        "covered_share": round(found.covered_share, 6),
        "second_share": round(found.second_share, 6),
    }


def _option(fleet: Fleet, prices: Prices, copy_h: float) -> dict[str, Any]:
    found = economics(
        fleet.nodes,
        prices.gpus_per_node,
        fleet.rate,
        copy_h,
        prices.swap_h,
        prices.useful_share,
        prices.save_interval_h,
    )
    price = prices.price
    lost = found.lost_work_gpu_h
    return {
        "copy_h": copy_h,
        "swap_h": prices.swap_h,
        "useful_share": prices.useful_share,
        "gpus_per_node": prices.gpus_per_node,
        "waiting_gpu_h": round(found.waiting_gpu_h, 3),
        "swapping_gpu_h": round(found.swapping_gpu_h, 3),
        "spare_gpu_h": round(found.idle_gpu_h, 3),
        "saved_gpu_h": round(found.saved_gpu_h, 3),
        "saved_usd": None if price is None else round(found.saved_gpu_h * price, 2),
        "break_even_per_week": found.break_even_per_week,
        "lost_work_gpu_h": None if lost is None else round(lost, 3),
    }


def render(found: dict[str, Any]) -> str:
    """What it rests on, a line for each cover time, a line for each copy time."""
    rule = "spares = smallest k with P(failures in the cover time <= k) >= "
    lines = [
        f"{found['nodes']} nodes x {found['rate']:g} failures per node and week "
        f"({found['rate_base']}) = {found['failures_per_week']:.3g} a week"
        + (f", one in {found['job_mtbf_h']:.3g} h" if found["job_mtbf_h"] else ""),
        f"{rule}{_asked(found['confidence'])}, failures at random: {_model(found)}",
    ]
    lines += [_need_line(one) for one in found["needs"]]
    for one in found["economics"]:
        lines += _option_lines(one, found["failures_per_week"])
    return "\n".join(lines)


def _asked(confidence: float) -> str:
    return f"{confidence:.2%}" if confidence < _ROUNDS_UP else f"{confidence * 100:.12g}%"


def _model(found: dict[str, Any]) -> str:
    if found["model"] == "Poisson":
        return "Poisson"
    return f"negative binomial, variance {found['dispersion']:g} times the mean"


def _nearly_sure(one: dict[str, Any]) -> str:
    """Rounded to 100 % only where no failure is expected."""
    is_rounded_up = one["covered_share"] >= _ROUNDS_UP and one["expected"] > 0
    return "more than 99.99%" if is_rounded_up else f"{one['covered_share']:.2%}"


def _need_line(one: dict[str, Any]) -> str:
    word = "spare" if one["spares"] == 1 else "spares"
    return (
        f"covered again within {hours(one['cover_h'])}: {one['spares']} {word} "
        f"({one['expected']:.2f} failures expected; enough in {_nearly_sure(one)} of cover "
        f"times; a further failure in {one['second_share']:.1%} of them)"
    )


def _option_lines(one: dict[str, Any], weekly: float) -> list[str]:
    pays = one["saved_gpu_h"] > 0
    verdict = "pays" if pays else "does not pay by itself"
    money = "" if one["saved_usd"] is None else f" = {one['saved_usd']:+,.0f} USD"
    use = f", of which it works {one['useful_share']:.0%} for others" * bool(one["useful_share"])
    swap = f"a swap loses {one['swapping_gpu_h']:,.0f}"
    if not one["swap_h"]:
        swap = "a swap's own time is not counted (--swap)"
    costs = f"{one['spare_gpu_h']:,.0f} (168 h x {one['gpus_per_node']} GPUs{use})"
    waiting = f"loses {one['waiting_gpu_h']:,.0f} GPU-h a week"
    copy = f"copy of {hours(one['copy_h'])} after each failure"
    lines = [
        f"{copy}: {waiting}; {swap}; one spare costs {costs}",
        f"  one spare {verdict}: {one['saved_gpu_h']:+,.0f} GPU-h a week{money}; "
        + _break_even(one, weekly),
    ]
    if not pays and one["break_even_per_week"] is not None:
        lines.append("  it pays when it runs work that gives way (filler) while nobody needs it")
    if one["lost_work_gpu_h"] is not None:
        lines.append(
            f"  lost with either: {one['lost_work_gpu_h']:,.0f} GPU-h a week of work since the "
            "last checkpoint (half an interval a failure)"
        )
    return lines


def _break_even(one: dict[str, Any], weekly: float) -> str:
    if one["break_even_per_week"] is None:
        return "a swap is no faster than a copy here"
    return f"break-even at {one['break_even_per_week']:.3g} failures a week, expected {weekly:.3g}"


def hours(value_h: float) -> str:
    """``1 week``, ``3 days``, ``1.5 h``, ``5 min``."""
    for size_h, word in ((WEEK_H, "week"), (24.0, "day")):
        if value_h >= size_h and value_h % size_h == 0 and (word == "week" or value_h > 24):
            count = int(value_h // size_h)
            return f"{count} {word}{'s' if count > 1 else ''}"
    return f"{value_h:g} h" if value_h >= 1 else f"{value_h * 60:g} min"
