"""Under a real ``slurm-io run``: a torn checkpoint is in the report, a whole one is not."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

SCRIPT = """
import os, sys, torch
folder, lost = sys.argv[1], int(sys.argv[2])
os.makedirs(folder)
for step in (10, 20, 30):
    torch.save({"w": torch.ones(50_000), "step": step}, f"{folder}/step-{step}.pt")
if lost:
    os.truncate(f"{folder}/step-30.pt", os.path.getsize(f"{folder}/step-30.pt") - lost)
"""
WAITS_FIRST = """
import sys
print("ready", flush=True)
sys.stdin.readline()
exec(compile(sys.argv.pop(1), "train.py", "exec"))
"""


def run(tmp_path: Path, lost: int) -> tuple[str, dict[str, Any]]:
    """Text and object of the report on three saves, the last of which loses so many bytes."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(tmp_path / "ckpt"), str(lost)]
    slurm_io = [sys.executable, "-m", "slurm_io", "run", "-o", str(tmp_path / "store"), "--"]
    done = subprocess.run([*slurm_io, *command], check=False, timeout=200)
    assert done.returncode == 0
    store = tmp_path / "store"
    assert not (store / "run.log").exists(), (store / "run.log").read_text()
    return (store / "report.txt").read_text(), json.loads((store / "report.json").read_text())


def test_a_torn_last_save_is_named_with_the_one_to_fall_back_to(tmp_path: Path) -> None:
    text, report = run(tmp_path, lost=4096)
    assert "F13" in text
    [finding] = [one for one in report["findings"] if one["rule"] == "F13"]
    assert finding["confidence"] == "proven"
    assert finding["where"]["files"] == [str(tmp_path / "ckpt" / "step-30.pt")]
    assert f"resume from {tmp_path / 'ckpt' / 'step-20.pt'}" in finding["remedy"]
    assert "lightning-torn-checkpoint" in finding["similar"]


def test_saves_left_as_they_were_are_nothing_to_tell(tmp_path: Path) -> None:
    text, report = run(tmp_path, lost=0)
    assert "F13" not in text
    assert not [one for one in report["coverage"]["missing"] if one["source"] == "rule F13"]
    told = json.loads((tmp_path / "store" / "checkpoints.json").read_text())
    [series] = told["folders"]
    assert [(one["step"], one["state"]) for one in series["saves"]] == [
        (30, "whole"), (20, "whole"), (10, "whole"),
    ]  # fmt: skip
    assert all(one["returned"] for one in series["saves"])


def test_a_run_that_was_killed_is_looked_at_when_its_report_is_asked_for(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "ckpt"
    wrapper = [sys.executable, "-m", "slurm_io", "run", "-o", str(store), "--", sys.executable]
    command = [*wrapper, "-c", WAITS_FIRST, SCRIPT, str(folder), "4096"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as killed:
        assert killed.stdin is not None and killed.stdout is not None
        assert killed.stdout.readline() == b"ready\n"
        killed.kill()
        killed.wait()
        killed.stdin.write(b"go on\n")
    ask = [sys.executable, "-m", "slurm_io", "report", str(store), "--json"]
    deadline_s = time.monotonic() + 120
    while True:  # until command and sampler have ended too
        done = subprocess.run(ask, check=False, capture_output=True, text=True, timeout=200)
        if done.returncode == 0:
            break
        assert time.monotonic() < deadline_s, done.stderr
        time.sleep(0.2)
    [finding] = [one for one in json.loads(done.stdout)["findings"] if one["rule"] == "F13"]
    assert finding["where"]["files"] == [str(folder / "step-30.pt")]
