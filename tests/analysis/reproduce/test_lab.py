"""A job's loader rerun for real: slow storage and a dear transform are told apart.

The lab's training runs under ``slurm-io run``, ``slurm-io reproduce`` writes the folder, and its
script runs the three passes with the job's own program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.labs.slowfs import REPOSITORY, SlowFs, fuse_missing
from tests.labs.slowfs_settings import SlowFsSettings
from tests.labs.train import make_dataset, train_command, train_environment

pytest.importorskip("torch")
pytestmark = pytest.mark.torch
SLURM_IO = (sys.executable, "-m", "slurm_io")
STEPS = "40"


def run_job(folder: Path, data: Path, **options: object) -> Path:
    """The lab's training on `data`; returns its store."""
    command = train_command(data, folder / "truth", {"steps": 90, "workers": 2, **options})
    foreign = ("SLURM_", "RANK", "WORLD_SIZE", "LOCAL_RANK")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    subprocess.run(
        [*SLURM_IO, "run", "-o", folder / "store", "--", *command],
        env=train_environment(clean) | {"PYTHONPATH": os.fspath(REPOSITORY)},
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder / "store"


def reproduce(store: Path, *arguments: str) -> dict[str, Any]:
    """Write the folder beside the store and run its script."""
    folder = store.with_name("again")
    subprocess.run(
        [*SLURM_IO, "reproduce", store, "-o", folder],
        check=True,
        capture_output=True,
        cwd=REPOSITORY,
    )
    script = [sys.executable, folder / "reproduce.py", "--steps", STEPS, "--json", "--trust"]
    done = subprocess.run(
        [*script, *arguments],
        env=train_environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.fuse
@pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing()))
def test_slow_storage_is_told(tmp_path: Path) -> None:
    make_dataset(tmp_path / "fast", 64, 65536)
    slow = SlowFsSettings(read_latency_s=0.07)
    with SlowFs(tmp_path / "fast", tmp_path / "slow", slow) as mounted:
        store = run_job(tmp_path, mounted.mountpoint, compute_ms=50)
        found = reproduce(store)
    assert found["verdict"] == "storage"
    passes = found["passes"]
    assert passes["a"]["wait_share"] > 0.3
    assert passes["b"]["wait_share"] > 0.3
    assert passes["c"]["wait_share"] < 0.5 * passes["b"]["wait_share"]
    assert passes["a"]["slowest_read_s"] >= 0.07
    truth = list((tmp_path / "truth").iterdir())
    assert [path.name for path in truth] == ["rank0.json"]  # of the job; the rerun trained nothing


@pytest.mark.long
def test_a_dear_transform_is_told(tmp_path: Path) -> None:
    data = make_dataset(tmp_path / "fast", 64, 65536)
    store = run_job(tmp_path, data, reader="cpu", item_ms=40, compute_ms=25)
    found = reproduce(store, "--data", str(data))
    assert found["verdict"] == "loader"
    assert "what the dataset does with the data" in found["meaning"]
    passes = found["passes"]
    assert passes["b"]["wait_share"] > 0.3
    assert passes["a"]["wait_share"] < 0.5 * passes["b"]["wait_share"]


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    subprocess.run([*SLURM_IO, "run", "-o", tmp_path / "store", "--", "true"], check=True)
    (tmp_path / "precious").write_text("x")
    done = subprocess.run(
        [*SLURM_IO, "reproduce", tmp_path / "store", "-o", tmp_path],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 3
    assert "holds other things" in done.stderr
    assert not (tmp_path / "reproduce.py").exists()
