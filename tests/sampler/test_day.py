"""A long life leaves the sampler as small as its first hours found it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_io.host.malloc_settings import with_lean_malloc

MIB = 2**20


@pytest.mark.parametrize(
    ("seconds", "every_s"),
    [(5400, 600), pytest.param(86_400, 3600, marks=[pytest.mark.long, pytest.mark.timeout(1800)])],
    ids=["an hour and a half", "a day"],
)
def test_memory_descriptors_and_spool_stay_bounded(
    seconds: int, every_s: int, tmp_path: Path
) -> None:
    lab = [sys.executable, "-m", "tests.labs.simulated_day", str(tmp_path)]
    said = subprocess.run(
        [*lab, str(seconds), str(every_s)],
        env=with_lean_malloc(os.environ),  # as every sampler is started
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    states = [json.loads(line) for line in said.stdout.splitlines()]
    assert len(states) >= seconds // every_s - 1
    settled = states[1:] if seconds < 86_400 else states  # the lists below are full by then
    resident = [state["rss_bytes"] for state in settled]
    assert max(resident) - resident[0] < MIB, resident
    descriptors = [state["descriptors"] for state in settled]
    assert max(descriptors) - min(descriptors) <= 4, descriptors
    own = json.loads((tmp_path / "spool/self.json").read_text())
    assert own["ticks"] == seconds
    assert own["sealing"]["runs"] >= 6
    assert own["sealing"]["failures"] == 0
    assert own["dropped_rows"] == 0
    # A part a table and rotation at most, and the streams since the last rotation.
    rotations = seconds / min(3600, seconds / 8)
    assert states[-1]["files"] <= len(own["rows"]) * (rotations + 2) + 4
    assert states[-1]["spool_bytes"] < 64 * MIB
