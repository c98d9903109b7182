"""The grid's judge finds what is wrong with a report, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.grid.judge import judge
from tests.grid.runner import HEAD, line, main
from tests.grid.scenarios import SCENARIOS, Scenario

SCENARIO = Scenario(
    name="example", why="", train={}, verdicts=frozenset({"storage"}),
    fired=frozenset({"F01"}), quiet=frozenset({"F04"}),
)  # fmt: skip


def report(
    verdict: str = "storage",
    share: tuple[float | None, ...] = (0.35, 0.40, 0.45),
    rules: tuple[str, ...] = ("F01",),
) -> dict[str, Any]:
    names = ("low", "value", "high")
    return {
        "verdict": verdict,
        "idle": {"storage": dict(zip(names, share, strict=True))},
        "findings": [{"rule": rule} for rule in rules],
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


def test_lines_stand_under_the_head() -> None:
    text = line(judge(SCENARIO, report(), truth=0.42))
    assert text[: len(HEAD)].split() == [
        "example",
        "storage",
        "0.420",
        "0.350",
        "0.400",
        "0.450",
        "0",
    ]


def test_every_scenario_has_a_name_of_its_own_and_expects_something() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)
    for scenario in SCENARIOS:
        assert scenario.verdicts
        assert not scenario.fired & scenario.quiet


def test_an_unknown_scenario_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["nonsense"])
    assert caught.value.code == 2
    assert "healthy" in capsys.readouterr().err
