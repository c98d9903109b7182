"""The grid's table: a line for each run, and what all of them come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tests.grid.judge import Outcome

HEAD = (
    f"{'scenario':30} {'verdict':12} {'truth':>6} {'low':>6} {'value':>6} {'high':>6} "
    f"{'off':>6} {'in':>3} {'busy':>4}  {'s':>4}"
)


def line(outcome: Outcome) -> str:
    """One line of the table."""
    shares = " ".join(
        f"{'-' if share is None else f'{share:.3f}':>6}"
        for share in (outcome.truth, outcome.low, outcome.value, outcome.high)
    )
    off = "-" if outcome.deviation is None else f"{outcome.deviation:+.3f}"
    inside = {None: "-", True: "yes", False: "NO"}[outcome.holds_truth]
    end = "FAIL: " + "; ".join(outcome.problems) if outcome.problems else "ok"
    notes = f" ({'; '.join(outcome.notes)})" if outcome.notes else ""
    rules = ",".join(outcome.fired) or "-"
    head = f"{outcome.name:30} {outcome.verdict:12} {shares} {off:>6} {inside:>3}"
    return f"{head} {outcome.busy:4.0%}  {outcome.wall_s:4.0f}  {rules:12} {end}{notes}"


def totals(outcomes: Sequence[Outcome], errors: int = 0) -> dict[str, Any]:
    """Counts over all runs; shares of them are of the runs that ended."""
    shares = [one for one in outcomes if one.deviation is not None]
    largest = max(shares, key=lambda one: abs(one.deviation or 0.0), default=None)
    excused = [one for one in outcomes if one.is_excused]
    return {
        "runs": len(outcomes) + errors,
        "errors": errors,
        "failed": sum(bool(one.problems) for one in outcomes),
        "verdicts_right": sum(one.verdict_is_right for one in outcomes),
        "excused": len(excused),
        "scenarios": len({one.name for one in outcomes}),
        "decoys": len({one.name for one in outcomes if one.decoy}),
        "largest_deviation": None if largest is None else round(largest.deviation or 0.0, 6),
        "largest_deviation_of": None if largest is None else largest.name,
        "ranges": len(shares),
        "ranges_with_truth": sum(bool(one.holds_truth) for one in shares),
    }


def summary(counts: dict[str, Any]) -> str:
    """The totals in words."""
    ended = counts["runs"] - counts["errors"]
    runs = f"{counts['runs']} runs of {counts['scenarios']} scenarios ({counts['decoys']} decoys)"
    right = f"verdict right in {_share(counts['verdicts_right'], ended)}"
    if counts["excused"]:
        right += f", not proven on a busy machine in {counts['excused']}"
    lines = [
        f"{runs}: {counts['failed']} failed, {counts['errors']} did not end",
        right,
        f"truth inside low-high in {_share(counts['ranges_with_truth'], counts['ranges'])}",
    ]
    if counts["largest_deviation"] is not None:
        points = 100 * counts["largest_deviation"]
        lines.append(f"largest deviation {points:+.1f} points ({counts['largest_deviation_of']})")
    return "\n".join(lines)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """One line for programs."""
    return {**asdict(outcome), "deviation": outcome.deviation, "holds_truth": outcome.holds_truth}


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.0%})" if whole else "none"
