"""What people read of swaps and plans."""

from __future__ import annotations

import json
from pathlib import Path

from slurm_io.reservation.swap.forecast import forecasts
from slurm_io.reservation.swap.text import end_lines, forecast_lines
from tests.reservation.swap.fake import NAME
from tests.reservation.swap.lab import filler, lab, training


def test_a_plan_joins_nodes_for_which_the_same_would_be_done(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    before = it.slurm.seen()
    found = forecasts(it.world, NAME)
    lines = forecast_lines(found)
    assert lines[0] == "job 10, if one of t[1-3] fails"
    assert any("t4 would take over from NODE" in line for line in lines)
    assert len([line for line in lines if line.startswith("job")]) == 1
    assert it.nodes.asked.count("t4") == 1
    assert (it.slurm.seen(), it.slurm.log) == (before, [])
    json.dumps([each.to_dict() for each in found])


def test_a_plan_says_for_which_jobs_nothing_could_be_done(tmp_path: Path) -> None:
    it = lab(tmp_path, training(array=("9", 1)))
    assert "job array" in forecast_lines(forecasts(it.world, NAME))[1]
    assert (
        "no protected job runs" in forecast_lines(forecasts(lab(tmp_path, filler()).world, NAME))[0]
    )


def test_notes_and_phases_are_told(tmp_path: Path) -> None:
    from slurm_io.reservation.swap.model import Facts, SwapAnswer

    facts = Facts(notes=("look",), phases={"clear": 1.25})
    lines = end_lines(SwapAnswer("R", "done", "t3 -> t4\x1b[2J", facts))
    assert lines == ["done         t3 -> t4?[2J", "note         look", "phases       clear 1.2 s"]
