"""The spare screen of a real reservation: a run on three nodes, one spare, asked through Slurm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_io.errors import SlurmNotFound, SlurmRefused
from slurm_io.slurm.base import NewReservation
from slurm_io.slurm.cli import CliSlurm
from slurm_io.slurm.tools import Limits
from tests.cluster.conftest import require_cluster
from tests.labs import cluster_parts as parts
from tests.labs.cluster import SlurmCluster

pytestmark = pytest.mark.cluster
FOLDERS = tuple(parts.SBIN_PATH.split(":"))
CONFIG = """\
state_dir = "{root}/lib/%N"
log_file = "{root}/log/hooks.log"
[check.kernel_log]
enabled = false
[dataset.c4]
local = "{root}/nodes/%N/c4"
manifest = "{root}/c4.manifest"
[reservation.train]
dataset = "c4"
filler_partitions = ["idle"]
[spares]
ask_s = 60
"""
FILES, SIZE_BYTES = 6, 10_000
SLEEP = "#!/bin/sh\nsleep 600\n"


class Lab:
    """The cluster, its reservation `train` of all four nodes, the dataset on each node."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self.cluster = cluster
        self.root = cluster.root
        self.slurm = CliSlurm(Limits(30.0, folders=FOLDERS))
        self.config_path = self.root / "site.toml"
        self.config_path.write_text(CONFIG.format(root=self.root))

    def folder(self, node: str) -> Path:
        return self.root / "nodes" / node / "c4"

    def build(self) -> None:
        """One dataset, its manifest, a verified copy for each node."""
        source = self.root / "source"
        source.mkdir()
        for number in range(FILES):
            (source / f"{number}.bin").write_bytes(os.urandom(SIZE_BYTES))
        self.run(
            "t1", "dataset", "manifest", "build", str(source), "-o", f"{self.root}/c4.manifest"
        )
        for node in self.cluster.node_names:
            self.stage(node)

    def stage(self, node: str) -> None:
        shutil.rmtree(self.folder(node), ignore_errors=True)
        shutil.copytree(self.root / "source", self.folder(node))
        words = ("dataset", "verify", "c4", "--level", "4", "--record")
        self.run(node, *words, "--config", str(self.config_path))

    def run(self, node: str, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "slurm_io", *arguments],
            env={**os.environ, "SLURMD_NODENAME": node},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode in codes, done.stdout + done.stderr
        return done.stdout

    def status(self, code: int | tuple[int, ...], *options: str) -> str:
        words = ("spare", "status", "train", "--config", str(self.config_path), *options)
        return self.run("t1", *words, codes=code if isinstance(code, tuple) else (code,))

    def told(self, code: int | tuple[int, ...]) -> dict[str, Any]:
        return dict(json.loads(self.status(code, "--json")))

    def occupy(self, *nodes: str, options: tuple[str, ...] = ()) -> int:
        wanted = ("--exclusive", "-w", ",".join(nodes), *(options or ("--reservation=train",)))
        number = self.cluster.sbatch(SLEEP, *wanted, nodes=len(nodes))
        self.cluster.wait(number, "RUNNING")
        return number

    def clear(self) -> None:
        for job in self.slurm.jobs():
            if job.state in ("PENDING", "RUNNING"):
                self.slurm.cancel(job.job_id)
        for name, state in self.cluster.node_states().items():
            if state.startswith(("drain", "drng", "down")):
                self.cluster.scontrol("update", f"NodeName={name}", "State=RESUME")
        parts.wait_until(self.is_deleted, 60, "no reservation", 0.5)
        self.cluster.heal()

    def is_deleted(self) -> bool:
        """Slurm refuses while the reservation's jobs end."""
        try:
            self.slurm.delete_reservation("train")
        except SlurmRefused:
            return False
        except SlurmNotFound:
            return True
        return True


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[SlurmCluster]:
    require_cluster()
    idle = "PartitionName=idle Nodes=t[1-4] State=UP"
    with SlurmCluster(nodes=4, dbd=False, extra=f"SlurmdTimeout=60\n{idle}\n") as started:
        yield started


@pytest.fixture(scope="module")
def built(own_cluster: SlurmCluster) -> Lab:
    lab = Lab(own_cluster)
    lab.build()
    return lab


@pytest.fixture
def lab(built: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("SLURM_CONF", str(built.cluster.conf_path))
    nodes = tuple(built.cluster.node_names)
    built.slurm.create_reservation(NewReservation("train", nodes, ("root", built.cluster.user)))
    yield built
    built.clear()


def test_a_ready_spare_beside_a_running_job(lab: Lab) -> None:
    lab.occupy("t1", "t2", "t3")
    told = lab.told(0)
    (spare,) = told["spares"]
    assert (spare["node"], spare["state"], spare["membership"]) == ("t4", "ready", "reservation")
    assert (spare["same_content"], spare["level"], spare["bytes_behind"]) == (True, 4, 0)
    assert spare["health"] == "OK", spare["health_texts"]
    assert spare["drift"] == []
    assert spare["drift_text"].startswith("compared with 3 of 3 nodes")
    assert told["content_base"] == "what the run's nodes hold"
    phases = {phase["name"]: phase for phase in spare["estimate"]["phases"]}
    assert phases["detect"]["high_s"] == 60  # this cluster's SlurmdTimeout
    assert phases["requeue"]["high_s"] == lab.slurm.config().start_delay_s + 1
    assert (told["fleet"]["ready"], told["fleet"]["run_nodes"]) == (1, 3)


def test_the_text_and_the_page_of_it(lab: Lab) -> None:
    lab.occupy("t1", "t2", "t3")
    text = lab.status(0)
    assert text.startswith("1 of 1 spares ready, 1 wanted, 1 needed for 99 %")
    assert "\x1b" not in text
    page = lab.root / "spares.html"
    lab.status(0, "-f", "html", "-o", str(page))
    assert "<h1>Spares of train</h1>" in page.read_text()


def test_a_missing_file_makes_it_stale(lab: Lab) -> None:
    lab.occupy("t1", "t2", "t3")
    (lab.folder("t4") / "3.bin").unlink()
    try:
        (spare,) = lab.told(1)["spares"]
        assert spare["state"] == "stale"
        assert (spare["bytes_behind"], spare["files_behind"]) == (SIZE_BYTES, 1)
        assert spare["estimate"]["phases"][0]["name"] == "stage"
    finally:
        lab.stage("t4")


def test_filler_leaves_it_ready_and_a_second_job_takes_it(lab: Lab) -> None:
    lab.occupy("t1", "t2", "t3")
    filler = lab.occupy("t4", options=("--reservation=train", "-p", "idle", "-t", "30"))
    (spare,) = lab.told(0)["spares"]
    assert spare["state"] == "ready"
    (job,) = spare["jobs"]
    assert (job["job_id"], job["kind"], job["may_requeue"]) == (str(filler), "filler", True)
    assert 0 < job["left_s"] <= 1800
    lab.cluster.cancel(filler)
    lab.cluster.wait(filler, "CANCELLED")
    lab.occupy("t4")
    assert lab.told(1)["spares"] == []


def test_a_drained_spare_is_unhealthy_with_its_reason(lab: Lab) -> None:
    lab.occupy("t1", "t2", "t3")
    lab.slurm.drain("t4", "NHC: disk is <b>full</b>")
    (spare,) = lab.told(1)["spares"]
    assert spare["state"] == "unhealthy"
    assert "NHC: disk is <b>full</b>" in spare["reason"]
    assert "DRAIN" in spare["slurm_state"]


def test_a_spare_without_its_slurmd_is_not_ready(lab: Lab) -> None:
    """Long before SlurmdTimeout: nobody answers for it. Exit code 3 until Slurm knows it, too."""
    lab.occupy("t1", "t2", "t3")
    lab.cluster.kill_slurmd("t4")
    (spare,) = lab.told((1, 3))["spares"]
    assert spare["state"] in ("unknown", "unhealthy")
    assert spare["health"] is None


def test_what_a_user_left_behind_is_shown(lab: Lab) -> None:
    lab.occupy("t1", "t2", "t3")
    left = subprocess.Popen(["/bin/sleep", "600"], user=4242, group=4242, extra_groups=[])
    try:
        (spare,) = lab.told(0)["spares"]
        assert f"4242 {left.pid} sleep" in spare["strays"]
        assert not any(each.startswith(lab.cluster.user) for each in spare["strays"])
    finally:
        left.kill()
        left.wait()


def test_a_reservation_that_is_gone_is_said_so(lab: Lab) -> None:
    lab.clear()
    done = subprocess.run(
        [sys.executable, "-m", "slurm_io", "spare", "status", "--config", str(lab.config_path)],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 3
    assert "ended, was deleted or never made" in done.stderr
