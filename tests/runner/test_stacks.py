"""``slurm-io run --stacks``: from a real loader to the line in the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_io.collectors.stacks.program import find_py_spy
from slurm_io.store.reader import open_job

TRAINING = """
import time, torch
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)
class Samples(Dataset):
    def __len__(self): return 10**6
    def __getitem__(self, index):
        time.sleep(0.03)
        return torch.zeros(2)
until = time.monotonic() + 22
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(Samples(), batch_size=4, num_workers=1):
    model(batch).sum().backward()
    optimizer.step()
    time.sleep(0.05)
    if time.monotonic() > until: break
"""


@pytest.mark.torch
@pytest.mark.skipif(find_py_spy(os.environ.get("PATH")) is None, reason="py-spy is not installed")
@pytest.mark.parametrize("hook", [True, False])
def test_stacks_end_up_in_the_report_beside_the_hooks_shares(tmp_path: Path, hook: bool) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "slurm_io", "run", "--stacks", "-o", str(tmp_path / "store")]
    command += [] if hook else ["--no-hook"]
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    done = subprocess.run([*command, "--", sys.executable, str(script)], timeout=120, check=False)
    assert done.returncode == 0
    rows = open_job(tmp_path / "store").table("stacks").to_pylist()
    assert {row["state"] for row in rows if row["role"] == "rank"} >= {"data_wait"}
    report = json.loads((tmp_path / "store" / "report.json").read_text())
    assert report["coverage"]["stacks"] == "on"
    meta = json.loads(next((tmp_path / "store").glob("node=*/meta.json")).read_text())
    told = meta["sources"]["stacks"]
    assert told["state"] == "on" and told["samples"] > 0
    assert told["cpu_s"] < 0.02 * 25, "a window costs less than a fiftieth of its time"
    check = report["coverage"].get("stack_check")
    if check is not None:  # a busy machine has too few windows
        assert check["data_wait"]["share"] > 0.2
        assert (check["data_wait"]["hook"] is not None) is hook
