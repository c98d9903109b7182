"""checks.json: what the prolog was asked and what it found, for the report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from slurm_io.prolog.policy import Verdict
from slurm_io.prolog.request import Request
from slurm_io.records import dataclass, field
from slurm_io.slurm.environment import HookJob


@dataclass(frozen=True)
class CheckedNode:
    """One round of checks. `cpu_s` counts the children that lived to say what they used."""

    verdict: Verdict = field(default_factory=lambda: Verdict(()))
    not_run: tuple[tuple[str, str], ...] = ()
    leader: str | None = None
    wall_s: float = 0.0

    @property
    def cpu_s(self) -> float:
        """CPU of the checks' children."""
        each_once = {judged.ran.name: judged.ran.cpu_s or 0.0 for judged in self.verdict.judged}
        return sum(each_once.values())


def checks_json(job: HookJob, request: Request, checked: CheckedNode) -> bytes:
    """``{schema, node, leader, request, complaints, checks, not_run, wall_s, cpu_s}``.

    An entry of `checks` is a CheckResult with `policy` (in force), `action` (what followed),
    `wall_s` and `cpu_s` (null: not known) of its check.
    """
    content = {
        "schema": 1,
        "node": job.node,
        "leader": checked.leader,
        "request": request.spec.to_dict(),
        "complaints": list(request.complaints),
        "checks": check_entries(checked.verdict),
        "not_run": not_run_entries(checked.not_run),
        "wall_s": round(checked.wall_s, 4),
        "cpu_s": round(checked.cpu_s, 4),
    }
    return json.dumps(content, ensure_ascii=True).encode()


def check_entries(verdict: Verdict) -> list[dict[str, Any]]:
    """Results as JSON holds them."""
    return [
        {
            **judged.result.to_dict(),
            "policy": judged.policy,
            "action": judged.action,
            "wall_s": round(judged.ran.wall_s, 4),
            "cpu_s": judged.ran.cpu_s,
        }
        for judged in verdict.judged
    ]


def not_run_entries(not_run: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Checks that did not run, with the reason."""
    return [{"check": name, "reason": reason} for name, reason in not_run]
