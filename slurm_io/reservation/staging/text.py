"""Plans and answers for people and for programs."""

from __future__ import annotations

from typing import Any

from slurm_io.records import asdict
from slurm_io.reservation.staging.model import Donor, NodesPlan, StagedNodes
from slurm_io.staging.manifest.summary import human_bytes
from slurm_io.staging.stage.display import duration

_EFFECT = {
    "spare": "nothing waits for it",
    "idle": "no job runs there",
    "training": "a job runs there: its reads and its network share with this",
}


def plan_lines(plan: NodesPlan) -> list[str]:
    """Lines of ``--dry-run``."""
    lines = [f"dataset   {plan.name}, version {plan.content_id}", f"nodes of  {plan.reservation}"]
    for target in plan.targets:
        behind = "unknown" if target.bytes_behind is None else human_bytes(target.bytes_behind)
        lines.append(f"copy to   {target.node} ({behind} by size)")
    lines += [f"ready     {node}: nothing to do" for node in plan.ready]
    lines += [f"from      {_donor(donor)}" for donor in plan.donors]
    lines += [f"from      {place}" for place in plan.places]
    if plan.eta_s is not None and plan.rate_bytes_s is not None:
        rate = human_bytes(int(plan.rate_bytes_s))
        lines.append(f"time      about {duration(plan.eta_s)} at {rate}/s a node, as before")
    elif plan.targets:
        lines.append("time      not known: no node remembers the rate of a copy")
    lines += [f"left out  {node}: {why}" for node, why in plan.excluded.items()]
    return lines + ([f"PROBLEM   {plan.problem}"] if plan.problem else [])


def answer_lines(staged: StagedNodes) -> list[str]:
    """One line a node."""
    if staged.plan.problem is not None:
        return plan_lines(staged.plan)
    lines = [f"ready     {node}: nothing to do" for node in staged.plan.ready]
    for node in staged.nodes:
        state = {0: "ready", 1: "degraded"}.get(-1 if node.rc is None else node.rc, "NOT DONE")
        source = f", from {', '.join(node.sources)}" if node.sources else ""
        lines.append(f"{state:<9} {node.node}: {node.text}{source}")
    return lines


def plan_dict(plan: NodesPlan) -> dict[str, Any]:
    """As JSON holds it."""
    return {**asdict(plan), "exit_code": plan.exit_code}


def answer_dict(staged: StagedNodes) -> dict[str, Any]:
    """As JSON holds it."""
    return {
        "plan": plan_dict(staged.plan),
        "nodes": [asdict(node) for node in staged.nodes],
        "exit_code": staged.exit_code,
    }


def _donor(donor: Donor) -> str:
    most = f", at most {human_bytes(donor.most_bytes_s)}/s" if donor.most_bytes_s else ""
    return f"{donor.node} ({donor.kind}: {_EFFECT[donor.kind]}{most})"
