"""The grid's judge finds what is wrong with a report, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.grid.judge import Outcome, judge
from tests.grid.model import F01, NOT_ILL
from tests.grid.runner import main
from tests.grid.scenarios import ALL, SCENARIOS, Scenario
from tests.grid.table import HEAD, line, summary, totals

SCENARIO = Scenario(
    name="example", why="", train={}, verdicts=frozenset({"storage"}),
    fired=frozenset({"F01"}), quiet=frozenset({"F04"}),
)  # fmt: skip


def report(
    verdict: str = "storage",
    share: tuple[float | None, ...] = (0.35, 0.40, 0.45),
    rules: tuple[str, ...] = ("F01",),
    files: tuple[str, ...] = (),
) -> dict[str, Any]:
    names = ("low", "value", "high")
    return {
        "verdict": verdict,
        "idle": {"storage": dict(zip(names, share, strict=True))},
        "findings": [{"rule": rule, "where": {"files": list(files)}} for rule in rules],
    }


def test_a_right_report_has_no_problems() -> None:
    assert judge(SCENARIO, report(), truth=0.42).problems == ()


@pytest.mark.parametrize(
    ("wrong", "truth", "problem"),
    [
        (report(verdict="healthy"), 0.42, "verdict healthy, expected storage"),
        (report(rules=()), 0.42, "F01 did not fire"),
        (report(rules=("F01", "F04")), 0.42, "F04 fired"),
        (report(share=(0.3, 0.40, 0.5)), 0.44, "value 0.400 is -0.040 off the truth 0.440"),
        (report(share=(0.39, 0.40, 0.41)), 0.42, "truth 0.4200 outside 0.3900-0.4100"),
        (report(share=(None, None, None)), 0.42, "idle.storage is not known, the truth is 0.420"),
    ],
)
def test_each_fault_is_named(wrong: dict[str, Any], truth: float, problem: str) -> None:
    outcome = judge(SCENARIO, wrong, truth)
    assert outcome.problems == (problem,)
    assert "FAIL: " + problem in line(outcome)


@pytest.mark.parametrize(
    ("told", "problems"),
    [
        ({"alignment": {"state": "apart"}}, ()),
        ({"alignment": {"state": "open"}}, ("alignment.state is 'open', expected 'apart'",)),
        ({"alignment": None}, ("alignment.state is None, expected 'apart'",)),
        ({}, ("alignment.state is None, expected 'apart'",)),
    ],
)
def test_what_else_must_be_told_is_looked_for(
    told: dict[str, Any], problems: tuple[str, ...]
) -> None:
    scenario = replace(SCENARIO, told={"alignment.state": "apart"})
    assert judge(scenario, {**report(), **told}, truth=0.42).problems == problems


def test_lines_stand_under_the_head() -> None:
    text = line(judge(SCENARIO, report(), truth=0.42))
    assert text[: len(HEAD)].split() == [
        "example",
        "storage",
        "0.420",
        "0.350",
        "0.400",
        "0.450",
        "-0.020",
        "yes",
        "0%",
        "0",
    ]


def test_a_place_is_named_by_its_bare_name() -> None:
    scenario = replace(SCENARIO, named={"files": "item-7.bin"})
    assert judge(scenario, report(files=("/mnt/item-7.bin",)), truth=0.42).problems == ()
    [problem] = judge(scenario, report(files=("/mnt/item-70.bin",)), truth=0.42).problems
    assert problem == "no finding names item-7.bin among its files"


def test_a_busy_machine_excuses_what_is_not_proven_and_only_where_that_is_allowed() -> None:
    unproven = report(verdict="not-proven", rules=())
    allowed = replace(SCENARIO, unproven_when_busy="reads come late")
    assert judge(SCENARIO, unproven, truth=0.42, busy=0.9).problems != ()
    assert judge(allowed, unproven, truth=0.42, busy=0.1).problems != ()
    assert judge(allowed, report(verdict="healthy"), truth=0.42, busy=0.9).problems != ()
    outcome = judge(allowed, unproven, truth=0.42, busy=0.9)
    assert (outcome.problems, outcome.verdict_is_right) == ((), False)
    assert (outcome.is_excused, outcome.notes) == (True, ("not proven on a busy machine",))
    # What it does say must be true all the same.
    loud = report(verdict="not-proven", rules=("F04",))
    assert judge(allowed, loud, truth=0.42, busy=0.9).problems == ("F04 fired",)


def test_short_cpus_are_told_rightly_on_a_busy_machine_only() -> None:
    scenario = replace(SCENARIO, quiet=frozenset({"F04", "F22"}))
    hungry = report(rules=("F01", "F22"))
    assert judge(scenario, hungry, truth=0.42, busy=0.1).problems == ("F22 fired",)
    outcome = judge(scenario, hungry, truth=0.42, busy=0.9)
    assert (outcome.problems, outcome.is_excused) == ((), False)
    assert outcome.notes == ("F22 rightly: the machine was busy",)


def test_a_rule_that_needs_time_to_be_kept_may_be_quiet_on_a_busy_machine_only() -> None:
    scenario = replace(SCENARIO, silent_when_busy=frozenset({"F01"}))
    quiet = report(rules=())
    assert judge(scenario, quiet, truth=0.42, busy=0.1).problems == ("F01 did not fire",)
    outcome = judge(scenario, quiet, truth=0.42, busy=0.9)
    assert (outcome.problems, outcome.notes) == ((), ("F01 not told on a busy machine",))


def test_what_is_left_open_is_excused_on_a_busy_machine_only_and_a_wrong_word_never_is() -> None:
    scenario = replace(SCENARIO, told={"alignment.state": "aligned"})

    def saying(state: str) -> dict[str, Any]:
        return {**report(), "alignment": {"state": state}}

    assert judge(scenario, saying("aligned"), truth=0.42, busy=0.9).problems == ()
    assert judge(scenario, saying("open"), truth=0.42, busy=0.1).problems != ()
    assert judge(scenario, saying("apart"), truth=0.42, busy=0.9).problems != ()
    outcome = judge(scenario, saying("open"), truth=0.42, busy=0.9)
    assert outcome.problems == ()
    assert outcome.notes == ("alignment.state left open on a busy machine",)


def test_a_decoy_is_one_only_while_the_stopwatch_says_so() -> None:
    decoy = replace(SCENARIO, verdicts=NOT_ILL, fired=frozenset(), quiet=F01 | {"F19"}, decoy=True)
    blamed = report(share=(0.05, 0.055, 0.06))
    assert judge(decoy, report(share=(0.01, 0.02, 0.03)), truth=0.02).problems != ()
    outcome = judge(decoy, blamed, truth=0.055)
    assert (outcome.problems, outcome.notes) == (
        (),
        ("no decoy: storage was slow, by the stopwatch",),
    )
    loud = report(share=(0.05, 0.055, 0.06), rules=("F01", "F19"))
    assert judge(decoy, loud, truth=0.055).problems == ("F19 fired",)
    assert judge(replace(decoy, decoy=False), blamed, truth=0.055).problems != ()


def test_a_share_that_cannot_be_known_is_not_judged_but_its_range_is() -> None:
    short = replace(SCENARIO, share_is_known=False)
    assert judge(short, report(share=(None, None, None)), truth=0.42).problems == ()
    assert judge(short, report(share=(0.1, 0.2, 0.9)), truth=0.42).problems == ()
    assert judge(short, report(share=(0.1, 0.2, 0.3)), truth=0.42).problems != ()


def test_totals_count_verdicts_ranges_and_the_largest_deviation() -> None:
    runs: list[Outcome] = [
        judge(SCENARIO, report(), truth=0.42),
        judge(replace(SCENARIO, name="other", decoy=True), report(verdict="healthy"), truth=0.36),
        judge(SCENARIO, report(share=(0.39, 0.40, 0.41)), truth=0.42),
    ]
    counts = totals(runs, errors=1)
    assert (counts["runs"], counts["failed"], counts["errors"]) == (4, 2, 1)
    assert (counts["scenarios"], counts["decoys"]) == (2, 1)
    assert (counts["verdicts_right"], counts["ranges"], counts["ranges_with_truth"]) == (2, 3, 2)
    assert (counts["largest_deviation"], counts["largest_deviation_of"]) == (0.04, "other")
    assert "truth inside low-high in 2 of 3 (67%)" in summary(counts)


def test_every_scenario_has_a_name_of_its_own_and_expects_something() -> None:
    assert len({scenario.name for scenario in ALL}) == len(ALL)
    for scenario in ALL:
        assert scenario.verdicts
        assert not scenario.fired & scenario.quiet
        assert scenario.why and not scenario.why.endswith(" ")


def test_there_are_enough_of_them_and_few_enough_in_the_short_run() -> None:
    assert len(ALL) >= 40
    assert sum(scenario.decoy for scenario in ALL) >= 12
    assert sum(not scenario.is_long for scenario in SCENARIOS) <= 16


def test_a_decoy_is_never_to_be_blamed_on_storage() -> None:
    for scenario in ALL:
        if scenario.decoy:
            assert not scenario.verdicts & {"storage", "checkpoint"}
            assert "F04" not in scenario.fired


def test_an_unknown_scenario_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["nonsense"])
    assert caught.value.code == 2
    assert "healthy" in capsys.readouterr().err
