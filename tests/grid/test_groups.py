"""Two trainings side by side in one job: two groups, each loses its own, by its own stopwatch."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.store.reader import open_job
from tests.grid.reporting import SLURM_IO
from tests.labs.train import make_dataset, read_truth, train_command, train_environment

pytest.importorskip("torch")
pytestmark = [pytest.mark.grid, pytest.mark.torch, pytest.mark.timeout(600)]

STEPS = 120
SHAPES = {"first": {"item_ms": 20, "compute_ms": 30}, "second": {"item_ms": 8, "compute_ms": 55}}


def commands(folder: Path) -> list[str]:
    data = make_dataset(folder / "data", 8, 4096)
    found = []
    for name, options in SHAPES.items():
        (folder / name).mkdir()
        command = train_command(
            data, folder / name, {"steps": STEPS, "batch": 1, "reader": "cpu", **options}, ranks=2
        )
        found.append(shlex.join(command))
    return found


def lost_s(truth: Path) -> float:
    """GPU-seconds of two ranks by their own stopwatches: the longer wait of each step, start-up
    left out."""
    first, second = (one.waits_ns() for one in read_truth(truth))
    return 2 * sum(map(max, first, second)) / 1e9


def test_each_group_loses_its_own(tmp_path: Path) -> None:
    both = " & ".join(commands(tmp_path)) + " & wait"
    foreign = ("SLURM_", "RANK", "WORLD_SIZE", "LOCAL_RANK")
    environment = {name: each for name, each in os.environ.items() if not name.startswith(foreign)}
    store = tmp_path / "store"
    run = [*SLURM_IO, "run", "--no-report", "-o", os.fspath(store), "--", "bash", "-c", both]
    done = subprocess.run(
        run, env=train_environment(environment), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    picture = take_picture(open_job(store), Thresholds())
    by_proc = picture.timeline.by_proc
    groups = [[by_proc[proc].rank for proc in unit.procs] for unit in picture.losses.units]
    assert groups == [[0, 1], [0, 1]]
    truth_s = sum(lost_s(tmp_path / name) for name in SHAPES)
    assert sum(picture.losses.by_cause.values()) == pytest.approx(truth_s, rel=0.1)
