"""What the DLIO lab reads and says; its real runs are in tests/frameworks/test_dlio.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.timeline import read_timeline
from tests.analysis.stand_in import Job, one_rank, train
from tests.labs import dlio


def test_a_python_without_dlio_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dlio, "MODULES", ("sys", "no_such_benchmark"))
    why = dlio.missing(sys.executable)
    assert why is not None
    assert "no_such_benchmark" in why
    assert "pip install" in why
    assert "\n" not in why


def test_a_python_that_is_not_there_is_one_line_too(tmp_path: Path) -> None:
    why = dlio.missing(str(tmp_path / "python"))
    assert why is not None
    assert why.startswith("cannot run")
    assert "\n" not in why


def test_nothing_is_missing_where_all_modules_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dlio, "MODULES", ("sys", "json"))
    assert dlio.missing(sys.executable) is None


def test_a_pass_loses_to_waits_and_late_sleeps_without_its_first_step() -> None:
    lists = {"load": [9.0, 0.2, 0.4], "proc": [9.5, 1.0, 1.0], "compute": [0.5, 0.5, 0.5]}
    output = {
        "host_memory_GB": 23.0,
        "1": {name: {"block1": values} for name, values in lists.items()},
    }
    (one,) = dlio.passes_of(output)
    assert dlio.waited_share(one) == pytest.approx(0.3)
    assert dlio.late_share(one) == pytest.approx(0.2)


def test_same_steps_leave_out_the_first_and_the_last_of_a_pass() -> None:
    store = Job([train(one_rank(), 50, 0.06, lambda step: (0.02, "storage"))]).store()
    rows = read_timeline(Tables(store)).rows
    assert dlio.same_steps(rows) == pytest.approx(0.75, abs=0.01)
