"""What the profiler itself cost, from each node's self.json."""

from __future__ import annotations

from typing import Any

from slurm_io.analysis.inputs import StoreView
from slurm_io.analysis.slowed import pace_text


def overhead(store: StoreView) -> dict[str, Any]:
    """Sums over nodes; `cpu_share` is of one core of the costliest node, `rss_mb` the largest."""
    costs = [view.self_cost for view in store.nodes.values() if view.self_cost]
    cpu = [_sum(cost, "cpu_s", "children_cpu_s") for cost in costs]
    shares = [
        used / wall
        for used, cost in zip(cpu, costs, strict=True)
        if used is not None and (wall := _sum(cost, "wall_s"))
    ]
    rss = [value for cost in costs if (value := _sum(cost, "rss_peak_bytes")) is not None]
    known = [used for used in cpu if used is not None]
    written = [value for cost in costs if (value := _sum(cost, "bytes_written")) is not None]
    dropped = [value for cost in costs if (value := _sum(cost, "dropped_rows")) is not None]
    return {
        "cpu_s": round(sum(known), 3) if known else None,
        "cpu_share": round(max(shares), 6) if shares else None,
        "rss_mb": round(max(rss) / 2**20, 1) if rss else None,
        "bytes": int(sum(written)) if written else None,
        "dropped": int(sum(dropped)) if dropped else None,
        "governor": _governor(costs),
    }


def _sum(cost: dict[str, Any], *names: str) -> float | None:
    values = [cost.get(name) for name in names]
    known = [value for value in values if isinstance(value, (int, float))]
    return float(sum(known)) if known else None


def _governor(costs: list[dict[str, Any]]) -> Any:
    """The governor of the node that it slowed most, `text` in words what that left out."""
    found = [cost["governor"] for cost in costs if isinstance(cost.get("governor"), dict)]
    most = max(found, key=_level, default=None)
    return None if most is None else {**most, "text": pace_text(most)}


def _level(governor: dict[str, Any]) -> float:
    level = governor.get("level")
    return float(level) if isinstance(level, (int, float)) else 0.0
