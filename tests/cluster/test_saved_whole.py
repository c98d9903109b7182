"""A job on a real cluster that leaves a torn checkpoint: its own report says so."""

from __future__ import annotations

import json

import pytest

from tests.labs.hooked_cluster import HookedCluster

pytestmark = [pytest.mark.cluster, pytest.mark.root, pytest.mark.torch]
PROGRAM = """
import os, torch
os.makedirs("ckpt")
for step in (10, 20, 30):
    torch.save({"w": torch.ones(50_000)}, f"ckpt/step-{step}.pt")
os.truncate("ckpt/step-30.pt", 100_000)
"""


def test_a_torn_last_save_of_one_of_two_nodes(cluster: HookedCluster) -> None:
    """Only the first task saves; the node that analyses looks, as the job's user."""
    script = (
        f"cat > job.py <<'END'{PROGRAM}END\n"
        "export PYTHON\nsrun sh -c 'test \"$SLURM_PROCID\" != 0 || exec $PYTHON job.py'"
    )
    run = cluster.submit(script, nodes=2)
    assert run.wait() == "COMPLETED", run.output
    [finding] = [one for one in run.report()["findings"] if one["rule"] == "F13"]
    assert finding["confidence"] == "proven"
    assert finding["where"]["files"][0].endswith("/ckpt/step-30.pt")
    assert "/ckpt/step-20.pt, the newest whole one" in finding["remedy"]
    told = run.store() / "checkpoints.json"
    assert told.stat().st_uid == run.store().stat().st_uid
    assert [one["state"] for one in json.loads(told.read_text())["folders"][0]["saves"]] == [
        "broken", "whole", "whole",
    ]  # fmt: skip
