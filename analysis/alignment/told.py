"""``alignment`` of the report: what was lined up with what, and what follows."""

from __future__ import annotations

from typing import Any

from slurm_io.analysis.alignment.align import Alignment, Meeting

_MOST_SERIES = 8


def alignment_report(found: Alignment, false_alarm: float) -> dict[str, Any]:
    """``{state, reason, drops, p, false_alarm_rate, tested_s, explained_share, text, series}``.

    `explained_share`: of the drops, those that meet slow reads beyond chance. `series`: the best
    ones, each against the drops of its own node; `lift`: how much more often it was slow in drops
    than outside them. What was not tested is null.
    """
    series = sorted(found.meetings, key=lambda one: (one is not found.best, -one.explained))
    return {
        "state": found.state,
        "reason": found.reason or None,
        "drops": found.drops,
        "p": _rounded(found.p),
        "false_alarm_rate": false_alarm,
        "tested_s": found.tested_s,
        "explained_share": _rounded(found.explained),
        "text": found.text,
        "series": [_series(one) for one in series[:_MOST_SERIES]],
    }


def _series(one: Meeting) -> dict[str, Any]:
    return {
        "node": one.latencies.node,
        "name": one.latencies.name,
        "mount": one.latencies.mount,
        "usual_ms": _rounded(one.latencies.usual_ms),
        "spike_ms": _rounded(one.latencies.spike_ms),
        "drops": one.drops,
        "met": one.met,
        "by_chance": _rounded(one.by_chance),
        "lift": _rounded(one.lift),
        "looked_share": _rounded(one.looked),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
