"""Compares one report with what the scenario expects and with the lab's truth."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from tests.grid.model import BLAMES_STORAGE, F01, STORAGE, Judged, Scenario

BUSY_SHARE = 0.5
"""Of a run in which somebody waited for a CPU: from here on the machine counts as busy."""
CPUS_SHORT = frozenset({"F22"})
STORAGE_SHARE = 0.03
"""Of training: from here on storage is to be blamed (thresholds.data_share)."""
OPEN = "open"  # of the report's own words for "neither shown nor ruled out"
ROUNDING = 5e-7  # the report prints six digits


@dataclass(frozen=True)
class Outcome:
    """One line of the grid's table. Shares are of training GPU-seconds; None = not reported.

    `busy`: share of the run in which somebody on the machine waited for a CPU (0: not measured).
    `notes`: what is not as expected and allowed all the same.
    """

    name: str
    verdict: str
    truth: float
    low: float | None
    value: float | None
    high: float | None
    fired: tuple[str, ...]
    wall_s: float
    problems: tuple[str, ...]
    busy: float = 0.0
    notes: tuple[str, ...] = ()
    is_excused: bool = False
    verdict_is_right: bool = True
    decoy: bool = False

    @property
    def deviation(self) -> float | None:
        """Value less truth."""
        return None if self.value is None else self.value - self.truth

    @property
    def holds_truth(self) -> bool | None:
        """Whether the reported range holds the truth; None without a range."""
        if self.low is None or self.high is None:
            return None
        return _holds(self.low, self.truth, self.high)


def _holds(low: float, truth: float, high: float) -> bool:
    return low - ROUNDING <= truth <= high + ROUNDING


def judge(
    scenario: Judged,
    report: Mapping[str, Any],
    truth: float,
    wall_s: float = 0.0,
    busy: float = 0.0,
) -> Outcome:
    """What the report says and everything that is wrong with it."""
    scenario, was_slow = _as_it_was(scenario, truth)
    storage = report["idle"]["storage"] or {}
    fired = tuple(sorted({finding["rule"] for finding in report["findings"]}))
    is_excused = _is_excused(scenario, report["verdict"], busy)
    starved = _rightly_starved(scenario, fired, busy)
    silenced = _rightly_silent(scenario, fired, busy)
    opened = _rightly_open(scenario, report, busy)
    problems = [
        *([] if is_excused else _verdict_problems(scenario, report["verdict"])),
        *_rule_problems(scenario, (set(fired) | silenced) - starved, is_excused),
        *([] if is_excused else _place_problems(scenario, report["findings"])),
        *([] if is_excused else _told_problems(scenario, report, opened)),
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
        busy=busy,
        notes=(
            *(["not proven on a busy machine"] if is_excused else []),
            *(f"{rule} rightly: the machine was busy" for rule in sorted(starved)),
            *(f"{rule} not told on a busy machine" for rule in sorted(silenced)),
            *(f"{name} left open on a busy machine" for name in sorted(opened)),
            *(["no decoy: storage was slow, by the stopwatch"] if was_slow else []),
        ),
        is_excused=is_excused,
        verdict_is_right=report["verdict"] in scenario.verdicts,
        decoy=scenario.decoy,
    )


def _as_it_was(scenario: Judged, truth: float) -> tuple[Judged, bool]:
    """A live decoy whose reads the stopwatch found slow, for the machine was busy, is none: then
    blaming storage is right, and so is not doing it."""
    is_decoy = scenario.decoy and scenario.share_is_known and isinstance(scenario, Scenario)
    if not is_decoy or truth < STORAGE_SHARE:
        return scenario, False
    allowed = scenario.verdicts | STORAGE
    return replace(scenario, verdicts=allowed, quiet=scenario.quiet - F01 - BLAMES_STORAGE), True


def _is_excused(scenario: Judged, verdict: str, busy: float) -> bool:
    """Not proven, where the scenario says that a busy machine may do that, and it was busy."""
    if verdict in scenario.verdicts or not scenario.unproven_when_busy:
        return False
    return verdict == "not-proven" and busy >= BUSY_SHARE


def _rightly_starved(scenario: Judged, fired: tuple[str, ...], busy: float) -> set[str]:
    """F22, unasked for, where CPUs were short indeed."""
    return set(CPUS_SHORT & scenario.quiet & set(fired)) if busy >= BUSY_SHARE else set()


def _rightly_silent(scenario: Judged, fired: tuple[str, ...], busy: float) -> set[str]:
    """Rules that a busy machine may keep quiet, where it was busy and they are."""
    return set(scenario.silent_when_busy) - set(fired) if busy >= BUSY_SHARE else set()


def _verdict_problems(scenario: Judged, verdict: str) -> list[str]:
    if verdict in scenario.verdicts:
        return []
    return [f"verdict {verdict}, expected {' or '.join(sorted(scenario.verdicts))}"]


def _rule_problems(scenario: Judged, fired: set[str], is_excused: bool) -> list[str]:
    silent = [] if is_excused else sorted(scenario.fired - fired)
    loud = sorted(scenario.quiet & fired)
    return [f"{rule} did not fire" for rule in silent] + [f"{rule} fired" for rule in loud]


def _place_problems(scenario: Judged, findings: list[dict[str, Any]]) -> list[str]:
    return [
        f"no finding names {wanted} among its {key}"
        for key, wanted in scenario.named.items()
        if not any(_is_named(wanted, finding["where"][key]) for finding in findings)
    ]


def _is_named(wanted: object, places: list[object]) -> bool:
    return any(place == wanted or PurePath(str(place)).name == wanted for place in places)


def _rightly_open(scenario: Judged, report: Mapping[str, Any], busy: float) -> set[str]:
    """What the report leaves open where the machine was busy: it claims nothing."""
    if busy < BUSY_SHARE:
        return set()
    return {name for name in scenario.told if _at(report, name) == OPEN}


def _told_problems(
    scenario: Judged, report: Mapping[str, Any], opened: Collection[str]
) -> list[str]:
    found = {name: _at(report, name) for name in scenario.told.keys() - opened}
    return [
        f"{name} is {found[name]!r}, expected {wanted!r}"
        for name, wanted in scenario.told.items()
        if name in found and found[name] != wanted
    ]


def _at(report: Mapping[str, Any], name: str) -> object:
    value: Any = report
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _share_problems(
    scenario: Judged, storage: Mapping[str, float | None], truth: float
) -> list[str]:
    low, value, high = (storage.get(name) for name in ("low", "value", "high"))
    if low is None or value is None or high is None:
        known = scenario.share_is_known
        return [f"idle.storage is not known, the truth is {truth:.3f}"] if known else []
    problems = []
    if scenario.share_is_known and abs(value - truth) > scenario.tolerance:
        problems.append(f"value {value:.3f} is {value - truth:+.3f} off the truth {truth:.3f}")
    if not _holds(low, truth, high):
        problems.append(f"truth {truth:.4f} outside {low:.4f}-{high:.4f}")
    return problems
