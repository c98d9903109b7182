"""A real cluster with a reservation for a training, spare nodes, and our configuration for it.

Reservation ``train`` holds t1 to t5; t6 stands by outside, t7 and t8 belong to nobody. Jobs of
partition ``filler`` give way.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_io.errors import SlurmError
from slurm_io.reservation.swap.looks import bad_words
from slurm_io.slurm.cli import CliSlurm
from slurm_io.slurm.tools import Limits
from tests.labs import cluster_parts as parts
from tests.labs.cluster import SlurmCluster
from tests.labs.cluster_parts import wait_until
from tests.labs.tiny_training import TinyTraining

FOLDERS = tuple(parts.SBIN_PATH.split(":"))
MEMBERS = "t[1-5]"
# The timers of the real thing, made short.
EXTRA = """\
PartitionName=filler Nodes=ALL MaxTime=1:00:00 PriorityTier=1 State=UP
"""
CONFIG = """\
runtime_dir = "{root}/run"
spool_dir = "{root}/spool"
state_dir = "{root}/ours-%n"
[check.kernel_log]
enabled = false
[spares]
grace_s = 2
ask_s = 40
reach = "{reach}"
clear_s = 60
start_s = 120
alert_command = "{root}/page"
{dataset}
[reservation.train]
filler_partitions = ["filler"]
standby = "{standby}"
{more}
"""
DATASET = """\
[dataset.c4]
local = "{root}/nodes/%n/c4"
manifest = "{root}/c4.jsonl"
"""
PAGE = '#!/bin/sh\nprintf "%s\\n" "$1" >> "{root}/paged"\n'
_ALIVE = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")


@dataclass
class SpareCluster:
    """The cluster, and what tests of spares do with it."""

    cluster: SlurmCluster

    @property
    def slurm(self) -> CliSlurm:
        """Access to it; SLURM_CONF must be set."""
        return CliSlurm(Limits(30.0, folders=FOLDERS))

    @property
    def root(self) -> Path:
        return self.cluster.root

    @property
    def config(self) -> Path:
        return self.root / "spares.toml"

    @property
    def paged(self) -> str:
        """What a person was called with."""
        path = self.root / "paged"
        return path.read_text() if path.exists() else ""

    def configure(
        self, more: str = "", dataset: str = "", standby: str = "t6", reach: str = "auto"
    ) -> None:
        """Write the configuration; `more` goes to [reservation.train]."""
        values = {"root": self.root, "more": more, "standby": standby, "reach": reach}
        self.config.write_text(CONFIG.format(dataset=dataset, **values))
        page = self.root / "page"
        page.write_text(PAGE.format(root=self.root))
        page.chmod(0o755)

    def stage(self, *nodes: str) -> None:
        """A dataset of some files on each node, verified and recorded, and set in the config."""
        self.configure('dataset = "c4"', DATASET.format(root=self.root))
        for node in nodes:
            folder = self.root / "nodes" / node / "c4"
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(4):
                (folder / f"shard-{number}.bin").write_bytes(bytes([number]) * 300_000)
        self._dataset("manifest", "build", str(folder), "-o", str(self.root / "c4.jsonl"))
        for node in nodes:
            self._dataset(
                "verify", "c4", "--level", "4", "--record", "--config", str(self.config), node=node
            )

    def _dataset(self, *arguments: str, node: str = "") -> None:
        words = [sys.executable, "-m", "slurm_io", "dataset", *arguments]
        env = {**self.cluster.env, "SLURMD_NODENAME": node} if node else self.cluster.env
        subprocess.run(words, env=env, check=True, capture_output=True, timeout=120)

    def make_reservation(self) -> None:
        """Once."""
        self.cluster.scontrol(
            "create", "reservation", "ReservationName=train", f"Nodes={MEMBERS}",
            f"Users={self.cluster.user},root", "StartTime=now", "Duration=UNLIMITED",
        )  # fmt: skip

    def train(self, on: str = "t1,t2,t3") -> tuple[str, TinyTraining]:
        """A training pinned to three nodes, running and with a checkpoint."""
        folder = self.cluster.work_dir(f"train{len(list((self.root / 'work').iterdir()))}")
        given = ["--reservation=train", "--requeue", "--exclusive", "-w", on]
        job = self.cluster.sbatch(TinyTraining.script(), *given, nodes=3, work_dir=folder)
        training = TinyTraining(folder)
        self.cluster.wait(job, "RUNNING")
        wait_until(lambda: training.checkpoint > 0, 60, "a checkpoint", 0.3)
        return str(job), training

    def fill(self, node: str, *options: str) -> str:
        """A filler job on one node, running."""
        given = ["--partition=filler", "--reservation=train", "--requeue", "--exclusive"]
        script = "#!/bin/sh\n#SBATCH --output=/dev/null\nsleep 900\n"
        job = self.cluster.sbatch(script, *given, "-w", node, *options)
        self.cluster.wait(job, "RUNNING")
        return str(job)

    def command(self, *arguments: str) -> list[str]:
        """``slurm-io spare ARGUMENTS`` with the configuration."""
        words = [sys.executable, "-m", "slurm_io", "spare", *arguments]
        return [*words, "--config", str(self.config)]

    def ours(self, *arguments: str, timeout_s: float = 200.0) -> subprocess.CompletedProcess[str]:
        """A command of ours, as root on the managing machine."""
        return subprocess.run(
            self.command(*arguments), env=self.cluster.env, capture_output=True, text=True,
            timeout=timeout_s, check=False,
        )  # fmt: skip

    def swap(self, *arguments: str) -> dict[str, Any]:
        """``spare swap train ... --yes --json``; the answer with its exit code as ``rc``."""
        done = self.ours("swap", "train", "--yes", "--json", *arguments)
        if not done.stdout.strip():
            return {"rc": done.returncode, "stderr": done.stderr}
        return {**json.loads(done.stdout), "rc": done.returncode, "stderr": done.stderr}

    def deadly(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A swap that dies, or has something done, at a moment: see tests/labs/deadly_swap.py.
        The shell line of ``during`` knows this cluster by SLURM_CONF."""
        words = [sys.executable, "-m", "tests.labs.deadly_swap", str(self.config), *arguments]
        return subprocess.run(
            words, env=self.cluster.env, capture_output=True, text=True, timeout=250, check=False
        )

    def fail(self, node: str) -> None:
        """Somebody says that it is bad; its job runs on."""
        self.cluster.scontrol("update", f"NodeName={node}", "State=FAIL", "Reason=ECC errors")

    def members(self) -> list[str]:
        """Nodes of the reservation."""
        return list(self.slurm.reservation("train").nodes)

    def kill(self, node: str) -> None:
        """It loses power; returns when Slurm knows that it is down."""
        self.cluster.kill_node(node)
        wait_until(lambda: self.slurm.node(node).base == "DOWN", 60, f"{node} down", 0.3)

    def reset(self) -> None:
        """No jobs, every node well, the reservation and our state as they were."""
        for job in self._alive():
            self.slurm.cancel(job)
        wait_until(lambda: not self._alive(), 60, "no job left", 0.3)
        for node in self.cluster.node_names:
            if not parts.is_running(self.cluster.slurmd_pid(node)):
                self.cluster.start_slurmd(node)
        wait_until(self._all_well, 60, "every node well", 0.3)
        self.cluster.scontrol("update", "ReservationName=train", f"Nodes={MEMBERS}")
        for path in self.root.glob("ours-*/reservations"):
            shutil.rmtree(path)
        (self.root / "paged").unlink(missing_ok=True)

    def state_of_world(self, jobs: Sequence[str]) -> dict[str, Any]:
        """What a swap may change."""
        return {
            "members": self.members(),
            "nodes": {each.name: (each.base, each.is_drained) for each in self.slurm.nodes()},
            "jobs": {each: self._job_state(each) for each in jobs},
        }

    def _job_state(self, number: str) -> tuple[Any, ...]:
        job = self.slurm.job(number)
        return job.state, job.nodes, job.pinned_to, job.is_held, job.restarts

    def _alive(self) -> list[str]:
        found = self.slurm.jobs()
        return [each.job_id for each in found if {each.state, *each.flags} & set(_ALIVE)]

    def _all_well(self) -> bool:
        for node in self.slurm.nodes():
            if bad_words(node) and node.is_responding:
                try:
                    self.slurm.resume(node.name)
                except SlurmError:
                    return False
        return all(each.base == "IDLE" and not bad_words(each) for each in self.slurm.nodes())
