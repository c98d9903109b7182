"""Staging on nodes of a real cluster, from healthy ones: several, killed ones, gone on with."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slurm_io.slurm.base import NewReservation
from slurm_io.slurm.cli import CliSlurm
from slurm_io.slurm.tools import Limits
from tests.cluster.conftest import require_cluster
from tests.labs import cluster_parts as parts
from tests.labs.cluster import SlurmCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
SECRET = re.compile(rb"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")  # of 32 bytes
FILES, FILE_BYTES = 12, 3_000_000
CONFIG = """\
state_dir = "{root}/lib/%N"
[dataset.c4]
local = "{root}/nodes/%N/c4"
shared = "{root}/shared/c4"
manifest = "{root}/c4.jsonl"
[stage]
free_share = 0
[spares]
reach = "{reach}"
[reservation.spares]
dataset = "c4"
[check.kernel_log]
enabled = false
"""


@dataclass(frozen=True)
class Lab:
    cluster: SlurmCluster
    root: Path

    def slurm_io(
        self, *arguments: str, node: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, node=node)
        out, err = process.communicate(timeout=200)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def start(self, *arguments: str, node: str | None = None) -> subprocess.Popen[str]:
        env = {**self.cluster.env, "PYTHONPATH": str(Path(__file__).parents[2])}
        return subprocess.Popen(
            [sys.executable, "-m", "slurm_io", *arguments],
            env=env if node is None else {**env, "SLURMD_NODENAME": node},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def stage(self, *words: str) -> tuple[int, dict[str, Any], str]:
        done = self.slurm_io("dataset", "stage", "c4", *words, "--json", *self.config)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout), done.stderr

    @property
    def config(self) -> tuple[str, str]:
        return ("--config", str(self.root / "config.toml"))

    def write_config(self, reach: str) -> None:
        (self.root / "config.toml").write_text(CONFIG.format(root=self.root, reach=reach))

    def give(self, node: str) -> None:
        """A copy that the node itself has verified."""
        folder = self.root / "nodes" / node / "c4"
        folder.mkdir(parents=True, exist_ok=True)
        for path in (self.root / "shared" / "c4").iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        words = ("dataset", "verify", "c4", "--level", "4", "--record")
        done = self.slurm_io(*words, *self.config, node=node)
        assert done.returncode == 0, done.stdout + done.stderr

    def is_ready(self, node: str) -> bool:
        """As the node itself proves it, byte by byte."""
        words = ("dataset", "verify", "c4", "--level", "4", "--json", *self.config)
        done = self.slurm_io(*words, node=node)
        level0 = self.slurm_io("dataset", "verify", "c4", "--level", "0", *self.config, node=node)
        return done.returncode == 0 and level0.returncode == 0

    def running(self) -> list[int]:
        """Processes of a staging, on whichever node."""
        config, found = str(self.root / "config.toml"), []
        for pid in parts.processes_naming(config):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                ours = b"slurm_io" in words or b"slurm_io.reservation.staging.on_node" in words
                if ours and (b"stage" in words or b"serve" in words):
                    found.append(pid)
        return found

    def on_node(self, node: str, word: str) -> list[int]:
        """Processes of ``dataset WORD`` on that node."""
        found = []
        for pid in self.running():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                environ = Path(f"/proc/{pid}/environ").read_bytes()
                here = f"SLURMD_NODENAME={node}\0".encode() in environ
                if here and b"slurm_io" in words and word.encode() in words:
                    found.append(pid)
        return found


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[SlurmCluster]:
    require_cluster()
    with SlurmCluster(nodes=4, dbd=False) as started:
        yield started


@pytest.fixture
def lab(own_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("SLURM_CONF", str(own_cluster.conf_path))
    slurm = CliSlurm(Limits(30.0, folders=tuple(parts.SBIN_PATH.split(":"))))
    if not slurm.reservations():
        slurm.create_reservation(
            NewReservation("spares", tuple(own_cluster.node_names), users=("games", "root"))
        )
    root = own_cluster.root / f"lab{len(list(own_cluster.root.glob('lab*')))}"
    made = Lab(own_cluster, root)
    (root / "shared" / "c4").mkdir(parents=True)
    (root / "lib").mkdir()
    for number in range(FILES):
        (root / "shared" / "c4" / f"part-{number:03}.bin").write_bytes(os.urandom(FILE_BYTES))
    built = made.slurm_io(
        "dataset", "manifest", "build", str(root / "shared" / "c4"), "-o", str(root / "c4.jsonl")
    )
    assert built.returncode == 0, built.stderr
    made.write_config("direct")
    yield made
    for pid in made.running():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("reach", ["direct", "jobs"])
def test_two_nodes_from_one_healthy_peer_one_after_the_other(lab: Lab, reach: str) -> None:
    lab.write_config(reach)
    lab.give("t1")
    code, plan, _ = lab.stage("--to", "t[2-3]", "--from", "peer", "--dry-run")
    assert code == 1
    assert [each["node"] for each in plan["targets"]] == ["t2", "t3"]
    assert [each["node"] for each in plan["donors"]] == ["t1"]
    assert not (lab.root / "nodes" / "t2").exists()

    code, answer, told = lab.stage("--to", "t[2-3]", "--from", "peer")
    assert code == 0, (answer, told)
    assert {each["node"]: each["rc"] for each in answer["nodes"]} == {"t2": 0, "t3": 0}
    assert lab.is_ready("t2") and lab.is_ready("t3")
    parts.wait_until(lambda: not lab.running(), 30, "nothing left on the nodes")
    names = parts.run(["squeue", "-h", "-o", "%j"], lab.cluster.env).stdout
    assert "slurm_io-stage" not in names

    code, answer, _ = lab.stage("--to", "t2")
    assert (code, answer["plan"]["ready"]) == (0, ["t2"])


def test_a_secret_stands_in_no_command_line_and_an_interrupt_ends_all(lab: Lab) -> None:
    lab.give("t1")
    process = lab.start("dataset", "stage", "c4", "--to", "t2", "--bandwidth=2M", *lab.config)
    parts.wait_until(lambda: bool(lab.on_node("t2", "stage")), 60, "the target copies")
    parts.wait_until(lambda: bool(lab.on_node("t1", "serve")), 60, "the donor serves")
    seen = [
        Path(f"/proc/{pid}/{name}").read_bytes()
        for pid in [*lab.running(), process.pid]
        for name in ("cmdline", "environ")
    ]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3 and "the same command goes on" in out, out + err
    parts.wait_until(lambda: not lab.running(), 30, "nothing left on the nodes")
    assert len(seen) >= 8 and not any(map(SECRET.search, seen))
    assert not lab.is_ready("t2")
    assert lab.stage("--to", "t2")[0] == 0 and lab.is_ready("t2")


@pytest.mark.parametrize("reach", ["direct", "jobs"])
def test_nothing_stays_on_the_nodes_when_the_asking_machine_dies(lab: Lab, reach: str) -> None:
    lab.write_config(reach)
    lab.give("t1")
    process = lab.start("dataset", "stage", "c4", "--to", "t2", "--bandwidth=500K", *lab.config)
    parts.wait_until(lambda: bool(lab.on_node("t2", "stage")), 60, "the target copies")
    process.kill()
    process.communicate()
    parts.wait_until(lambda: not lab.running(), 90, "nothing left on the nodes")
    assert not lab.is_ready("t2")


@pytest.mark.long
def test_a_donor_that_dies_is_replaced_by_another(lab: Lab) -> None:
    lab.give("t1")
    lab.give("t4")
    process = lab.start("dataset", "stage", "c4", "--to", "t2", "--bandwidth=6M", *lab.config)
    parts.wait_until(lambda: bool(lab.on_node("t1", "serve")), 60, "t1 serves")
    parts.wait_until(lambda: bool(lab.on_node("t2", "stage")), 60, "t2 copies")
    for pid in lab.on_node("t1", "serve"):
        os.kill(pid, signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert lab.is_ready("t2")


@pytest.mark.long
def test_a_target_that_is_killed_is_not_ready_and_goes_on_later(lab: Lab) -> None:
    lab.give("t1")
    process = lab.start("dataset", "stage", "c4", "--to", "t2,t3", "--bandwidth=6M", *lab.config)
    parts.wait_until(lambda: bool(lab.on_node("t2", "stage")), 60, "t2 copies")
    for pid in lab.on_node("t2", "stage"):
        os.kill(pid, signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 3, out + err
    assert "NOT DONE  t2" in out and "ready     t3" in out, out + err
    assert lab.is_ready("t3") and not lab.is_ready("t2")
    code, answer, _ = lab.stage("--to", "t2,t3")
    assert code == 0 and answer["plan"]["ready"] == ["t3"], answer
    assert lab.is_ready("t2")


def test_places_are_read_by_the_targets_themselves(lab: Lab) -> None:
    code, answer, told = lab.stage("--to", "t2", "--to", "t3", "--from", "path")
    assert code == 0, (answer, told)
    assert lab.is_ready("t2") and lab.is_ready("t3")


def test_what_cannot_be_done_is_said_before_anything_is(lab: Lab) -> None:
    code, answer, _ = lab.stage("--to", "t2", "--from", "peer")
    assert code == 3 and "no healthy node holds this version" in answer["plan"]["problem"]
    busy = lab.cluster.sbatch("#!/bin/sh\nsleep 300\n", "-w", "t3", "--reservation=spares")
    lab.cluster.wait(busy, "RUNNING")
    code, answer, _ = lab.stage("--to", "t3", "--from", "path")
    lab.cluster.cancel(busy)
    assert code == 3 and f"job {busy} runs there" in answer["plan"]["problem"]
    done = lab.slurm_io("dataset", "stage", "c4", "--to", "t2", "--from", "a b", *lab.config)
    assert done.returncode == 2 and "give peer, a node" in done.stderr
    unknown = lab.stage("--to", "t99", "--from", "path")
    assert unknown[0] == 3 and "no node of this reservation" in unknown[1]["plan"]["problem"]
