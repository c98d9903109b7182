"""A dataset that nodes of a real job lack: their prologs say so, and the report says whose fault
it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.labs.hooked_cluster import HookedCluster

pytestmark = [pytest.mark.cluster, pytest.mark.root]


def made_copy(cluster: HookedCluster, node: str) -> Path:
    """The folder of `node`'s own copy, with three files, and their manifest."""
    folder = cluster.root / "nvme" / node
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"shard{number}").write_bytes(b"x" * 100)
    manifest = cluster.root / "alike.jsonl"
    build = ["dataset", "manifest", "build", folder, "-o", manifest, "--form", "jsonl"]
    subprocess.run(
        [sys.executable, "-m", "slurm_io", *build, "--dataset=c4"], check=True, capture_output=True
    )
    return manifest


def findings(cluster: HookedCluster) -> dict[str, dict[str, Any]]:
    """What the report of a job on all four nodes finds, by rule."""
    run = cluster.submit("srun -N4 -n4 sleep 1", "--comment=slurm-io: dataset=c4", nodes=4)
    assert run.wait() == "COMPLETED", run.output
    found: list[dict[str, Any]] = run.report()["findings"]
    cluster.heal()
    return {one["rule"]: one for one in found}


def test_a_dataset_missing_on_three_of_four_nodes_and_on_all(cluster: HookedCluster) -> None:
    manifest = made_copy(cluster, "t1")
    local = f'local = "{cluster.root}/nvme/%n"\nmanifest = "{manifest}"\nlevel = 1\n'
    cluster.install_hooks(extra_config=f"[dataset.c4]\n{local}")
    three = findings(cluster)
    assert three["F11"]["where"]["nodes"] == ["t2", "t3", "t4"]
    assert three["F11"]["confidence"] == "proven", "t1 has it, so the manifest is right"
    assert three["F11"]["commands"][0].endswith(" --to t2,t3,t4")
    assert three["F14"]["where"]["nodes"] == ["t2", "t3", "t4"]
    assert three["F14"]["remedy"].startswith("drain none of these nodes")

    for file in (cluster.root / "nvme" / "t1").iterdir():
        file.unlink()
    everywhere = findings(cluster)
    assert "F11" not in everywhere, "no node has it: the manifest or the storage"
    assert everywhere["F14"]["where"]["nodes"] == ["t1", "t2", "t3", "t4"]
    assert "F12" not in three.keys() | everywhere.keys()
    assert cluster.drains() == {}
