"""A whole run: the job prints its steps, the hook times them, and the report compares the two."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_io.store.reader import open_job

JOB = """
import time
try:
    from slurm_io_hook import watch
except ImportError:
    watch = iter
before = time.perf_counter()
for step, _ in enumerate(watch(range(160))):
    time.sleep(0.05)
    now = time.perf_counter()
    print(f"iter {step}: loss 2.5000, time {(now - before) * 1000:.2f}ms, mfu 23.40%", flush=True)
    before = now
"""


def run(tmp_path: Path, *options: str, to_file: bool = True) -> dict[str, Any]:
    """The report of a job whose output goes to a file."""
    script = tmp_path / "job.py"
    script.write_text(JOB)
    store = tmp_path / "store"
    command = [sys.executable, "-m", "slurm_io", "run", "-o", str(store), *options, "--"]
    with (tmp_path / "job.out").open("wb") as output:
        subprocess.run(
            [*command, sys.executable, str(script)],
            stdout=output if to_file else subprocess.PIPE,
            stderr=subprocess.DEVNULL, check=True, timeout=120, env={**os.environ},
        )  # fmt: skip
    report: dict[str, Any] = json.loads((store / "report.json").read_text())
    return report


def test_hook_and_log_agree_and_the_last_step_is_there(tmp_path: Path) -> None:
    report = run(tmp_path)
    log = report["coverage"]["log"]
    assert (log["source"], log["agrees"]) == ("nanogpt", True)
    assert "by the hook" in log["text"]
    assert "source" not in report["time"]
    rows = open_job(tmp_path / "store").table("log").to_pylist()
    printed = [line for line in (tmp_path / "job.out").read_text().splitlines() if line]
    assert [row["step"] for row in rows] == list(range(160))
    last_ms = float(printed[-1].split("time ")[1].split("ms")[0])
    assert rows[-1]["step_time_s"] == pytest.approx(last_ms / 1000)


def test_without_a_hook_the_log_gives_the_steps(tmp_path: Path) -> None:
    report = run(tmp_path, "--no-hook")
    assert report["coverage"]["hook"] == "off"
    assert report["time"]["source"] == "job log (nanogpt)"
    assert report["time"]["step_p50_s"] >= 0.05


def test_output_to_a_pipe_is_said_to_be_left_alone(tmp_path: Path) -> None:
    report = run(tmp_path, to_file=False)
    assert "log" not in report["coverage"]
    reasons = [one["reason"] for one in report["coverage"]["missing"] if one["source"] == "log"]
    assert len(reasons) == 1 and "pipe" in reasons[0]
