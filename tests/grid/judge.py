"""Compares one report with what the scenario expects and with the lab's truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.grid.scenarios import Scenario


@dataclass(frozen=True)
class Outcome:
    """One line of the grid's table. Shares are of training GPU-seconds; None = not reported."""

    name: str
    verdict: str
    truth: float
    low: float | None
    value: float | None
    high: float | None
    fired: tuple[str, ...]
    wall_s: float
    problems: tuple[str, ...]


def judge(
    scenario: Scenario, report: Mapping[str, Any], truth: float, wall_s: float = 0.0
) -> Outcome:
    """What the report says and everything that is wrong with it."""
    storage = report["idle"]["storage"] or {}
    fired = tuple(sorted({finding["rule"] for finding in report["findings"]}))
    problems = [
        *_verdict_problems(scenario, report["verdict"]),
        *_rule_problems(scenario, fired),
        *_share_problems(scenario, storage, truth),
    ]
    return Outcome(
        name=scenario.name,
        verdict=report["verdict"],
        truth=truth,
        low=storage.get("low"),
        value=storage.get("value"),
        high=storage.get("high"),
        fired=fired,
        wall_s=wall_s,
        problems=tuple(problems),
    )


def _verdict_problems(scenario: Scenario, verdict: str) -> list[str]:
    if verdict in scenario.verdicts:
        return []
    return [f"verdict {verdict}, expected {' or '.join(sorted(scenario.verdicts))}"]


def _rule_problems(scenario: Scenario, fired: tuple[str, ...]) -> list[str]:
    silent = [f"{rule} did not fire" for rule in sorted(scenario.fired - set(fired))]
    loud = [f"{rule} fired" for rule in sorted(scenario.quiet & set(fired))]
    return silent + loud


def _share_problems(
    scenario: Scenario, storage: Mapping[str, float | None], truth: float
) -> list[str]:
    low, value, high = (storage.get(name) for name in ("low", "value", "high"))
    if low is None or value is None or high is None:
        return [f"idle.storage is not known, the truth is {truth:.3f}"]
    problems = []
    if abs(value - truth) > scenario.tolerance:
        problems.append(f"value {value:.3f} is {value - truth:+.3f} off the truth {truth:.3f}")
    if not low <= truth <= high:
        problems.append(f"truth {truth:.4f} outside {low:.4f}-{high:.4f}")
    return problems
