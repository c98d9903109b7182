"""A site rule tried out: what it is, and what it says of one job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.report import report_of
from slurm_io.analysis.reports.text.words import printable
from slurm_io.analysis.site_rules.judge import judge
from slurm_io.analysis.site_rules.rule_file import SiteRule
from slurm_io.analysis.thresholds import Site, Thresholds
from slurm_io.store.reader import open_job


def sound(rule: SiteRule) -> dict[str, Any]:
    """``{sound, code, title, expression, unit, fires, threshold}`` of a rule that was read."""
    return {
        "sound": True,
        "code": rule.code,
        "title": rule.title,
        "expression": rule.text,
        "unit": str(rule.expression.unit) if rule.expression.unit.powers else None,
        "fires": rule.fires,
        "threshold": rule.threshold,
    }


def try_rule(rule: SiteRule, store: Path, thresholds: Thresholds) -> dict[str, Any]:
    """``{store, state, reason, evidence}``: the rule's answer for the job of `store`.

    Raises:
        StoreError: there is no readable job store at `store`.
    """
    alone = replace(thresholds, site=Site(price_usd_h=thresholds.site.price_usd_h))
    picture = take_picture(open_job(store), alone)
    said = judge(rule, picture, report_of(picture))
    evidence = [one.text for finding in said.findings for one in finding.evidence]
    return {"store": str(store), "state": said.state, "reason": said.reason, "evidence": evidence}


def text_of(told: dict[str, Any]) -> str:
    """The same for people."""
    side = "at or above" if told["fires"] == "above" else "at or below"
    unit = f" {told['unit']}" if told["unit"] else ""
    lines = [
        f"{told['code']} {told['title']}: sound",
        f"  fires where {told['expression']} is {side} {told['threshold']:g}{unit}",
    ]
    if "state" in told:
        reason = f": {told['reason']}" if told["reason"] else ""
        lines.append(f"  {told['store']}: {told['state']}{reason}")
        lines += [f"    {text}" for text in told["evidence"]]
    return "\n".join(map(printable, lines))
