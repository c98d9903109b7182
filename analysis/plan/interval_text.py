"""``slurm-io plan interval``: the numbers, and their words."""

from __future__ import annotations

from typing import Any

from slurm_io.analysis.plan.interval import best_interval, job_mtbf_s, lost_share
from slurm_io.analysis.thresholds import Saves

_FORMULA = "sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + (C / 2M) / 9) - C (Daly 2006; sqrt(2 C M): Young)"


def compute(
    cost_s: float, nodes: int, node_mtbf_h: float | None, now_s: float | None, restart_s: float
) -> dict[str, Any]:
    """``{cost_s, nodes, node_mtbf_h, now_s, restart_s, formula, base, options: [{mtbf_s, young_s,
    daly_s, interval_s, saving_share, lost_share, now_lost_share}]}``: one option where the mean
    time between failures is known, else several. Shares are of all time."""
    known = node_mtbf_h is not None
    mtbfs = [job_mtbf_s(node_mtbf_h * 3600, nodes)] if node_mtbf_h is not None else list(
        Saves().mtbf_table_s
    )  # fmt: skip
    base = (
        f"M = {node_mtbf_h:g} h of a node / {nodes}" if known
        else "how often a node fails is not known (--node-mtbf): a table for the whole job"
    )  # fmt: skip
    return {
        "cost_s": cost_s,
        "nodes": nodes,
        "node_mtbf_h": node_mtbf_h,
        "now_s": now_s,
        "restart_s": restart_s,
        "formula": _FORMULA,
        "base": base,
        "options": [_option(cost_s, mtbf_s, now_s, restart_s) for mtbf_s in mtbfs],
    }


def _option(
    cost_s: float, mtbf_s: float, now_s: float | None, restart_s: float
) -> dict[str, float | None]:
    best = best_interval(cost_s, mtbf_s, restart_s=restart_s)
    now = lost_share(now_s, cost_s, mtbf_s, restart_s) if now_s is not None else None
    return {
        "mtbf_s": round(mtbf_s, 3),
        "young_s": round(best.young_s, 3),
        "daly_s": round(best.daly_s, 3),
        "interval_s": round(best.interval_s, 3),
        "saving_share": round(best.saving_share, 6),
        "lost_share": round(best.lost_share, 6),
        "now_lost_share": None if now is None else round(now, 6),
    }


def render(found: dict[str, Any]) -> str:
    """A line for each mean time between failures, and what it rests on."""
    lines = [
        f"C = {found['cost_s']:g} s a save, {found['base']}",
        f"interval = {found['formula']}",
    ]
    for one in found["options"]:
        text = (
            f"one failure in {one['mtbf_s'] / 3600:.1f} h: {one['interval_s']:.0f} s "
            f"({one['interval_s'] / 60:.1f} min) of training between saves loses "
            f"{one['lost_share']:.2%} of all time, saving takes {one['saving_share']:.2%}"
        )
        if one["now_lost_share"] is not None:
            text += f"; {found['now_s']:g} s lose {one['now_lost_share']:.2%}"
        lines.append(text)
    return "\n".join(lines)
