"""The comparison object, schema 1: what ``slurm-io compare --json`` prints and the text renders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slurm_io.analysis.compare.difference import LEAST_POINTS, LEAST_RELATIVE, POWER
from slurm_io.analysis.compare.figures import Judged, figures_of, judge
from slurm_io.analysis.compare.settings import Change, changes
from slurm_io.analysis.compare.side import Side, read_side
from slurm_io.analysis.thresholds import Thresholds

COMPARISON_SCHEMA = 1
CONFIDENCE = 0.95
FIRST = ("item_mean", "step_mean")
_MOST_EPOCHS = 4
_MOST_MISSING = 4
METHOD = (
    "errors from slices of each run (batch means, neighbours' dependence included); confidence "
    f"{CONFIDENCE:.0%} for all tested figures together; the smallest difference that could have "
    f"been seen would be seen in {POWER:.0%} of such comparisons; what differs from one run to the "
    "next (nodes, other jobs, caches) is in no single run, so less than "
    f"{LEAST_RELATIVE:.0%} (shares: {LEAST_POINTS * 100:.0f} point) is never called a difference"
)


def compare(a: Path, b: Path, thresholds: Thresholds) -> dict[str, Any]:
    """Compare the stores at `a` and `b`.

    Raises:
        StoreError: one of them is no readable job store.
    """
    return compare_sides(read_side(a, thresholds), read_side(b, thresholds))


def compare_sides(a: Side, b: Side) -> dict[str, Any]:
    """As :func:`compare`, of stores that are read already."""
    judged = judge(figures_of(a, b), CONFIDENCE)
    differ, one_sided, same = changes(a.settings, b.settings)
    verdict, reason = _verdict(judged)
    return {
        "schema": COMPARISON_SCHEMA,
        "verdict": verdict,
        "verdict_reason": reason,
        "a": _side(a),
        "b": _side(b),
        "changed": [_change(one) for one in differ],
        "known_of_one": [_change(one) for one in one_sided],
        "same": same,
        "notes": _notes(a, b, differ, verdict),
        "figures": [_figure(one) for one in judged],
        "method": METHOD,
        "confidence": CONFIDENCE,
        "power": POWER,
    }


def is_difference(comparison: dict[str, Any]) -> bool:
    """Whether any figure was proven to differ."""
    return any(one["state"] == "differs" for one in comparison["figures"])


def is_comparison(comparison: dict[str, Any]) -> bool:
    """Whether any figure could be tested at all."""
    return any(one["state"] != "not tested" for one in comparison["figures"])


def _verdict(judged: list[Judged]) -> tuple[str, str]:
    first = next((one for one in judged if one.figure.name in FIRST and one.difference), None)
    tested = [one for one in judged if one.difference is not None]
    if not tested:
        whys = list(dict.fromkeys(one.why for one in judged))
        return "not-comparable", "; ".join(whys[:2])
    if first is not None and first.difference is not None and first.difference.proven:
        gap = first.difference
        word = "slower" if gap.value > 0 else "faster"
        times = f"{abs(gap.value):.1%} ({abs(gap.low):.1%} to {abs(gap.high):.1%})"
        more = "more" if gap.value > 0 else "less"
        return word, f"{first.figure.label} of B takes {times} {more}"
    other = [one.figure.label for one in tested if one.difference and one.difference.proven]
    if other:
        mean = "no difference of the mean step is proven" if first else "no mean step was compared"
        return "differs", f"{mean}, but what differs is: {', '.join(other)}"
    if first is None or first.difference is None:
        return "no-difference-proven", "no tested figure differs beyond its noise"
    least = max(first.difference.smallest, first.difference.least)
    seen = f"{first.figure.label}: the smallest difference that could have been seen is {least:.1%}"
    return "no-difference-proven", seen


def _side(side: Side) -> dict[str, Any]:
    report = side.report
    return {
        "store": side.path,
        "job": {name: report["job"][name] for name in ("id", "restart", "name", "start", "end")},
        "verdict": report["verdict"],
        "verdict_reason": report["verdict_reason"],
        "steps": report["time"]["steps"],
        "training_s": report["time"]["training_s"],
        "throughput": report["time"]["throughput"],
        "items_per_step": side.items,
        "storage_idle": report["idle"]["storage"],
        "base": report["idle"]["base"],
        "reads": _reads(report),
    }


def _reads(report: dict[str, Any]) -> list[str]:
    """What the first passes read, one text each; empty where it was not recorded."""
    told = report.get("reads") or {}
    return [str(one["text"]) for one in told.get("slices", [])[:_MOST_EPOCHS]]


def _change(change: Change) -> dict[str, Any]:
    return {
        "setting": change.setting,
        "a": None if change.a is None else list(change.a),
        "b": None if change.b is None else list(change.b),
    }


def _notes(a: Side, b: Side, differ: list[Change], verdict: str) -> list[str]:
    notes = []
    if _is_same_place(a.path, b.path):
        notes.append("A and B are one and the same store")
    notes += [*_not_seen("A", a, b), *_not_seen("B", b, a)]
    counts = (a.report["job"]["ranks"], b.report["job"]["ranks"])
    if counts[0] != counts[1]:
        notes.append(
            f"{counts[0]} and {counts[1]} ranks: a step of the whole job covers another number of "
            "items; times are those of one step"
        )
    bases = (a.report["idle"]["base"], b.report["idle"]["base"])
    if bases[0] != bases[1]:
        notes.append(f"shares have different bases: A {bases[0]}; B {bases[1]}")
    causes = [one.setting for one in differ if one.setting not in ("command", "node names")]
    if verdict in ("slower", "faster", "differs") and len(causes) > 1:
        notes.append(
            f"{len(causes)} settings changed together: two runs cannot tell which one did it"
        )
    if verdict in ("slower", "faster", "differs") and not differ:
        notes.append("no recorded setting changed: look at nodes, other jobs, caches, the code")
    return notes


def _is_same_place(a: str, b: str) -> bool:
    try:
        return Path(a).samefile(b)
    except OSError:
        return False


def _not_seen(name: str, side: Side, other: Side) -> list[str]:
    """Sources that are missing on one side only: what rests on them is no fair comparison."""
    theirs = {one["source"] for one in other.report["coverage"]["missing"]}
    missing = [
        f"not seen in {name} only: {one['source']}: {one['reason']}"
        for one in side.report["coverage"]["missing"]
        if one["source"] not in theirs and not one["source"].startswith("rule ")
    ]
    left_out = len(missing) - _MOST_MISSING
    more = [f"not seen in {name} only: {left_out} more sources"] if left_out > 0 else []
    return [*missing[:_MOST_MISSING], *more]


def _figure(one: Judged) -> dict[str, Any]:
    gap, figure = one.difference, one.figure
    state = "not tested"
    if gap is not None:
        unproven = "negligible" if gap.beyond_noise else "no difference proven"
        state = "differs" if gap.proven else unproven
    return {
        "figure": figure.name,
        "label": figure.label,
        "unit": figure.unit,
        "base": figure.base,
        "a": _rounded(one.a),
        "b": _rounded(one.b),
        "state": state,
        "reason": one.why or None,
        "difference_of": "A" if figure.relative else "points",
        "difference": _rounded(gap.value) if gap else None,
        "low": _rounded(gap.low) if gap else None,
        "high": _rounded(gap.high) if gap else None,
        "smallest_seen": _rounded(max(gap.smallest, gap.least)) if gap else None,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
