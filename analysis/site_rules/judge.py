"""A site rule's answer for one job, in the form of every rule's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rules.base import Answer, Evidence, Finding, Place
from slurm_io.analysis.site_rules.evaluate import Evaluator, Term, Unknown
from slurm_io.analysis.site_rules.folder import SiteRules
from slurm_io.analysis.site_rules.rule_file import SiteRule
from slurm_io.analysis.site_rules.units import Unit

_MOST_TERMS = 6
_MOST_TEXT = 300


def judge_all(rules: SiteRules, picture: Picture, report: Mapping[str, Any]) -> dict[str, Answer]:
    """Code in lower case -> answer."""
    return {rule.code.lower(): judge(rule, picture, report) for rule in rules.rules}


def judge(rule: SiteRule, picture: Picture, report: Mapping[str, Any]) -> Answer:
    """Never raises: what goes wrong in one rule is its own answer."""
    evaluator = Evaluator(picture, report)
    try:
        if rule.guard is not None and not evaluator.value(rule.guard):
            return Answer("quiet", f"its guard is not met: {rule.guard.text}")
        value = evaluator.value(rule.expression)
    except Unknown as error:
        return Answer("not enough evidence", str(error)[:_MOST_TEXT])
    except Exception as error:  # noqa: BLE001 - a report must not fail because of a site's rule
        why = f"the rule failed ({type(error).__name__}: {error})"
        return Answer("not enough evidence", " ".join(why.split())[:_MOST_TEXT])
    is_above = rule.fires == "above"
    fires = value >= rule.threshold if is_above else value <= rule.threshold
    told = f"{rule.text} = {shown(value, rule.expression.unit)}"
    if not fires:
        return Answer("quiet", told[:_MOST_TEXT])
    return Answer("fired", findings=(_finding(rule, value, told, evaluator.terms),))


def shown(value: float, unit: Unit) -> str:
    """A value as evidence has it."""
    return f"{value:.6g} {unit}" if unit.powers else f"{value:.6g}"


def _finding(rule: SiteRule, value: float, told: str, terms: list[Term]) -> Finding:
    side = "at least" if rule.fires == "above" else "at most"
    limit = shown(rule.threshold, rule.expression.unit)
    evidence = [
        Evidence(f"{told} ({side} {limit}: {rule.source})", "site_rule", value, rule.threshold)
    ]
    for one in dict.fromkeys(terms):
        if one.text != rule.text:
            text = f"{one.text} = {shown(one.value, one.unit)}"
            evidence.append(Evidence(text, one.text, one.value))
    return Finding(
        rule=rule.code,
        severity=rule.severity,
        confidence="likely",  # one signal, and nobody but the site has tried it
        title=rule.title.rstrip("."),
        lost_gpu_s=None,
        where=Place(),
        evidence=tuple(evidence[: _MOST_TERMS + 1]),
        remedy=rule.remedy,
        commands=rule.commands,
    )
