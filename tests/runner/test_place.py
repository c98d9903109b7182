"""What a user's run tells its sampler."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.runner.place import Place, prepare

NAMES = (
    "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES", "SLURM_JOB_ID", "SLURM_STEP_ID",
)  # fmt: skip


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Place]]:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    made: list[Place] = []
    yield made
    for place in made:
        shutil.rmtree(place.ring_dir)
        if place.lock_fd is not None:
            os.close(place.lock_fd)


@pytest.mark.parametrize(
    ("environment", "gpus"),
    [
        ({}, "all"),
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, "CUDA_VISIBLE_DEVICES=2,3"),
        ({"SLURM_JOB_GPUS": "4-5", "CUDA_VISIBLE_DEVICES": "0,1"}, "SLURM_JOB_GPUS=4-5"),
    ],
)
def test_which_gpus(
    places: list[Place],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    gpus: str,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    place = prepare(("true",), tmp_path / "store", tmp_path)
    places.append(place)
    assert json.loads((place.spool / "sampler.json").read_text())["gpus"] == gpus


def test_the_sampler_is_told_how_much_of_a_core_it_may_use(
    places: list[Place], tmp_path: Path
) -> None:
    place = prepare(("true",), tmp_path / "store", tmp_path, budget_share=0.05)
    places.append(place)
    assert json.loads((place.spool / "sampler.json").read_text())["budget_share"] == 0.05
