"""Every scenario of the grid: right verdict, right rules, right share of idle time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.grid.live import run_scenario
from tests.grid.missing import why_not
from tests.grid.model import Recorded, Scenario
from tests.grid.replay import replay
from tests.grid.scenarios import RECORDED, SCENARIOS
from tests.grid.table import line

pytest.importorskip("torch")


def parameters() -> list[object]:
    found = []
    for scenario in SCENARIOS:
        missing = why_not(scenario)
        skip = pytest.mark.skipif(missing is not None, reason=str(missing))
        marks = [skip, *([pytest.mark.long] if scenario.is_long else [])]
        found.append(pytest.param(scenario, id=scenario.name, marks=marks))
    return found


@pytest.mark.grid
@pytest.mark.torch
@pytest.mark.timeout(720)
@pytest.mark.parametrize("scenario", parameters())
def test_the_report_agrees_with_the_lab(scenario: Scenario, tmp_path: Path) -> None:
    outcome = run_scenario(scenario, tmp_path / "run")
    print(line(outcome))
    assert outcome.problems == (), f"{line(outcome)}\nartifacts: {tmp_path / 'run'}"


@pytest.mark.grid
@pytest.mark.parametrize("scenario", RECORDED, ids=[one.name for one in RECORDED])
def test_the_report_of_a_recording_agrees_with_what_was_recorded(
    scenario: Recorded, tmp_path: Path
) -> None:
    outcome = replay(scenario, tmp_path / "run")
    print(line(outcome))
    assert outcome.problems == (), f"{line(outcome)}\nartifacts: {tmp_path / 'run'}"
