"""A slow read that the GPU does not notice, and the same read while the GPU stands still.

`slurm-io run` around a loop whose reads are slow in both cases. Only the GPU's queue differs: in
the decoy it outlasts each read, in the twin it is empty. The GPU is a stand-in, the reads are real.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.labs import queued_gpu
from tests.labs.slowfs import REPOSITORY, SlowFs, fuse_missing
from tests.labs.slowfs_settings import SlowFsSettings
from tests.labs.train import make_dataset

SLURM_IO = (sys.executable, "-m", "slurm_io")
JOB = Path(queued_gpu.__file__).with_name("train.py")
pytestmark = [
    pytest.mark.grid,
    pytest.mark.fuse,
    pytest.mark.timeout(300),
    pytest.mark.skipif(fuse_missing() is not None, reason=f"no slowfs: {fuse_missing()}"),
]


def run(folder: Path, ahead: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """(report, truth) of a run whose loop may be `ahead` steps ahead of its GPU."""
    make_dataset(folder / "fast", 64, 64 * 1024)
    store, truth = folder / "store", folder / "truth.json"
    with SlowFs(folder / "fast", folder / "slow", SlowFsSettings(read_latency_s=0.02)) as slow:
        job = [
            sys.executable, os.fspath(JOB), "--data", os.fspath(slow.mountpoint),
            "--truth", os.fspath(truth), "--ahead", str(ahead),
        ]  # fmt: skip
        _slurm_io("run", "-o", os.fspath(store), "--", *job)
    report: dict[str, Any] = json.loads(_slurm_io("report", os.fspath(store), "-f", "json"))
    return report, json.loads(truth.read_text())


def _slurm_io(*arguments: str) -> str:
    foreign = ("SLURM_", "RANK", "WORLD_SIZE", "LOCAL_RANK")
    environment = {name: each for name, each in os.environ.items() if not name.startswith(foreign)}
    done = subprocess.run(
        [*SLURM_IO, *arguments],
        cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_share(report: dict[str, Any], truth: dict[str, Any]) -> float:
    """The report's share of time lost to all data waits is the truth's; gives the truth."""
    share: float = truth["idle_s"] / truth["window_s"]
    idle = report["idle"]
    causes = ("data_storage", "data_cpu", "data_pipeline", "data_unknown")
    lost = sum(idle[cause] for cause in causes)
    assert lost == pytest.approx(share, abs=0.02), (idle, truth)
    assert idle["storage"]["low"] <= share + 0.005, (idle, truth)
    side = report["coverage"]["gpu_side"]
    assert side["measured_share"] > 0.95
    assert side["idle_s"] == pytest.approx(truth["idle_s"], abs=0.01 * truth["window_s"])
    assert truth["trespasses"] == []
    return share


def test_a_wait_behind_a_busy_queue_is_no_stall(tmp_path: Path) -> None:
    """A third of the time and more is spent in slow reads. The GPU has work in all of it."""
    report, truth = run(tmp_path, ahead=5)
    share = check_share(report, truth)
    assert truth["waited_s"] / truth["window_s"] > 0.33
    if share < 0.02:  # else the machine was so busy that the queue ran dry
        assert report["verdict"] == "healthy", report["verdict_reason"]
        assert report["findings"] == []
        assert "while the GPUs had work" in report["verdict_reason"]


def test_the_same_wait_before_an_idle_gpu_is_storage(tmp_path: Path) -> None:
    report, truth = run(tmp_path, ahead=0)
    share = check_share(report, truth)
    assert share > 0.25
    assert report["idle"]["storage"]["high"] > 0.6 * share
    assert report["verdict"] == "storage"
    assert "F01" in {finding["rule"] for finding in report["findings"]}
