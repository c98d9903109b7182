"""Every scenario of the grid, for real: right verdict, right rules, right share of idle time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_io.collectors.stacks.program import find_py_spy
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
                ),
                pytest.mark.skipif(
                    not scenario.hook and find_py_spy(os.environ.get("PATH")) is None,
                    reason="py-spy is not installed",
                ),
                *([pytest.mark.long] if scenario.is_long else []),
            ],
        )
        for scenario in SCENARIOS
    ]


@pytest.mark.grid
@pytest.mark.torch
@pytest.mark.timeout(720)
@pytest.mark.parametrize("scenario", parameters())
def test_the_report_agrees_with_the_lab(scenario: Scenario, tmp_path: Path) -> None:
    outcome = run_scenario(scenario, tmp_path / "run")
    print(line(outcome))
    assert outcome.problems == (), f"{line(outcome)}\nartifacts: {tmp_path / 'run'}"
