"""Every scenario of the grid, for real: right verdict, right rules, right share of idle time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.grid.runner import line, run_scenario
from tests.grid.scenarios import SCENARIOS, Scenario
from tests.labs.slowfs import fuse_missing

pytest.importorskip("torch")


def parameters() -> list[object]:
    missing = fuse_missing()
    return [
        pytest.param(
            scenario,
            id=scenario.name,
            marks=[
                pytest.mark.skipif(
                    scenario.needs_fuse and missing is not None, reason=f"no slowfs: {missing}"
                )
            ],
        )
        for scenario in SCENARIOS
    ]


@pytest.mark.grid
@pytest.mark.torch
@pytest.mark.timeout(240)
@pytest.mark.parametrize("scenario", parameters())
def test_the_report_agrees_with_the_lab(scenario: Scenario, tmp_path: Path) -> None:
    outcome = run_scenario(scenario, tmp_path / "run")
    print(line(outcome))
    assert outcome.problems == (), f"{line(outcome)}\nartifacts: {tmp_path / 'run'}"
