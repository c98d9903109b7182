"""The watch, the drill, and nodes that come and go as spares, on a real cluster."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, Self

import pytest

from tests.cluster.conftest import require_cluster
from tests.labs.cluster import SlurmCluster
from tests.labs.cluster_parts import wait_until
from tests.labs.spare_cluster import EXTRA, SpareCluster

pytestmark = pytest.mark.cluster


class WatchedCluster(SpareCluster):
    """With a watch that looks every second and soon believes."""

    def configure(self, more: str = "", dataset: str = "") -> None:
        super().configure(more, dataset)
        text = self.config.read_text().replace("grace_s = 2", "grace_s = 1\nperiod_s = 1")
        self.config.write_text(text)

    def filler_script(self) -> str:
        """Settings of a filler that runs for ever."""
        script = self.root / "filler.sh"
        script.write_text("#!/bin/sh\n#SBATCH --output=/dev/null\n#SBATCH --exclusive\nsleep 900\n")
        return f'filler_script = "{script}"\nfiller_user = "{self.cluster.user}"'

    def history(self) -> list[dict[str, Any]]:
        path = next(self.root.glob("ours-*/reservations/train/history.jsonl"))
        return [json.loads(line) for line in path.read_text().splitlines()]


class RunningWatch:
    """`slurm-io spare watch` in the foreground of a process; its events as they come."""

    def __init__(self, lab: SpareCluster, *options: str) -> None:
        self.process = subprocess.Popen(
            lab.command("watch", "train", "--json", *options),
            env=lab.cluster.env,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.lab = lab
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            for log in self.lab.root.glob("ours-*/reservations/train/watch-tasks.log"):
                print(log.read_text())
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def wait_for(self, event: str, timeout_s: float = 90.0) -> dict[str, Any]:
        """The first event of this kind."""
        wait_until(lambda: bool(self.named(event)), timeout_s, f"{event} among {self.events}", 0.2)
        return self.named(event)[0]

    def named(self, event: str) -> list[dict[str, Any]]:
        return [each for each in list(self.events) if each["event"] == event]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))


@pytest.fixture(scope="module")
def started() -> Iterator[WatchedCluster]:
    require_cluster()
    with SlurmCluster(nodes=7, dbd=False, extra=EXTRA) as cluster:
        os.environ["SLURM_CONF"] = str(cluster.conf_path)
        lab = WatchedCluster(cluster)
        lab.make_reservation()
        yield lab
        del os.environ["SLURM_CONF"]


@pytest.fixture
def lab(started: WatchedCluster) -> WatchedCluster:
    started.reset()
    started.configure()
    return started


def test_node_that_dies_is_suggested_once_with_the_command_that_swaps_it(
    lab: WatchedCluster,
) -> None:
    job, _ = lab.train()
    bad = lab.slurm.job(job).nodes[1]
    with RunningWatch(lab, "--policy", "suggest") as watch:
        lab.cluster.kill_node(bad)
        told = watch.wait_for("suggest-swap")
        assert f"slurm-io spare swap train {bad} --job {job}" in told["text"]
        assert bad in lab.paged
        second = lab.ours("watch", "train", "--once")
        assert second.returncode == 3 and "has a watch already" in second.stderr
        watch.process.send_signal(signal.SIGTERM)
        assert watch.process.wait(10) == 0
    again = lab.ours("watch", "train", "--once", "--json")
    assert "suggest-swap" not in again.stdout, again.stdout
    assert bad in lab.members()


@pytest.mark.long
def test_auto_swaps_and_the_training_goes_on_with_filler_giving_way(lab: WatchedCluster) -> None:
    """t1 to t5 of the reservation: three train, the two spares get filler from the watch."""
    lab.configure(lab.filler_script())
    job, training = lab.train()
    with RunningWatch(lab, "--policy", "auto") as watch:
        wait_until(lambda: len(watch.named("filler")) >= 2, 60, f"{watch.events}", 0.3)
        fillers = [each for each in lab.slurm.jobs() if each.comment == "slurm_io-filler train"]
        assert {each.user for each in fillers} == {lab.cluster.user}
        bad = lab.slurm.job(job).nodes[1]
        lab.cluster.kill_node(bad)
        watch.wait_for("swap")
        wait_until(lambda: bad not in lab.members(), 120, f"{bad} is out: {watch.events}", 0.3)
        wait_until(lambda: len(training.starts) == 2, 120, f"it goes on: {watch.events}", 0.3)
        watch.wait_for("ended", 120)
        assert len(watch.named("swap")) == 1
    assert training.starts[1][0] > 0
    assert bad not in lab.slurm.job(job).nodes
    swaps = [each for each in lab.history() if each["kind"] == "swap"]
    assert [each["outcome"] for each in swaps] == ["done"]
    assert swaps[0]["phases"]["detect"] >= 1.0  # the watch's grace, which the swap did not wait


@pytest.mark.long
def test_repaired_node_comes_back_as_a_spare_only_after_its_data_was_read(
    lab: WatchedCluster,
) -> None:
    """A flipped byte in the copy of the node that was out: found, and mended by a neighbour."""
    lab.cluster.scontrol("update", "ReservationName=train", "Nodes=t[1-3]")
    lab.stage("t1", "t2", "t3", "t4")
    source = lab.root / "nodes" / "t1" / "c4"
    shard = lab.root / "nodes" / "t4" / "c4" / "shard-2.bin"
    content = bytearray(shard.read_bytes())
    content[1000] ^= 1
    before = shard.stat()
    shard.write_bytes(bytes(content))
    os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))

    done = lab.ours("add", "train", "t4", "--json")
    print(done.stdout, done.stderr)
    assert done.returncode == 0 and "staging what is missing or wrong" in done.stderr
    assert "t4" in lab.members()
    assert shard.read_bytes() == (source / "shard-2.bin").read_bytes()


@pytest.mark.long
def test_stale_spare_is_mended_and_features_follow_what_nodes_hold(lab: WatchedCluster) -> None:
    """t4 has lost a file: no feature; the watch has it staged, and it gets the feature."""
    lab.cluster.scontrol("update", "ReservationName=train", "Nodes=t[1-4]")
    lab.stage("t1", "t2", "t3", "t4")
    source = lab.root / "nodes" / "t1" / "c4"
    text = lab.config.read_text().replace("[dataset.c4]\n", f'[dataset.c4]\nshared = "{source}"\n')
    lab.config.write_text(text.replace('standby = "t6"\n', "feature = true\n"))
    (lab.root / "nodes" / "t4" / "c4" / "shard-2.bin").unlink()
    for node in ("t1", "t4"):
        features = "AvailableFeatures=rack7,ds_c4_000000000000"
        lab.cluster.scontrol("update", f"NodeName={node}", features)
    with RunningWatch(lab, "--policy", "auto") as watch:
        wait_until(lambda: "ds_c4_000000000000" not in features_of(lab, "t1"), 60, "t1", 0.3)
        held = features_of(lab, "t1")[1]
        assert features_of(lab, "t1") == ("rack7", held) and held.startswith("ds_c4_")
        watch.wait_for("stage")
        wait_until(lambda: features_of(lab, "t4") == ("rack7", held), 60, f"{watch.events}", 0.3)


@pytest.mark.long
def test_stale_standby_node_is_staged_where_it_is_and_stays_outside(lab: WatchedCluster) -> None:
    lab.cluster.scontrol("update", "ReservationName=train", "Nodes=t[1-2]")
    lab.stage("t1", "t2", "t6")
    shard = lab.root / "nodes" / "t6" / "c4" / "shard-2.bin"
    shard.unlink()
    with RunningWatch(lab, "--policy", "auto") as watch:
        told = watch.wait_for("stage")
        assert told["node"] == "t6" and "dataset stage c4 --to t6" in told["text"]
        wait_until(shard.exists, 120, f"staged: {watch.events}", 0.3)
        watch.wait_for("ended", 120)
    shown = json.loads(lab.ours("status", "train", "--json").stdout)["spares"]
    states = {spare["node"]: (spare["membership"], spare["state"]) for spare in shown}
    assert states["t6"] == ("standby", "ready"), shown
    assert lab.members() == ["t1", "t2"]
    proven = lab.ours("add", "train", "t6", "--stay-outside")
    assert proven.returncode == 0 and "proven" in proven.stdout, proven.stderr
    assert lab.members() == ["t1", "t2"]
    shutil.rmtree(shard.parent)
    again = lab.ours("add", "train", "t6", "--stay-outside")
    assert again.returncode == 0 and "is not there; staging" in again.stderr, again.stderr
    assert shard.exists()


def features_of(lab: WatchedCluster, node: str) -> tuple[str, ...]:
    return lab.slurm.node(node).features


def test_spare_comes_and_goes(lab: WatchedCluster) -> None:
    refused = lab.ours("add", "train", "no-such-node")
    assert refused.returncode == 3, refused.stderr
    assert lab.ours("add", "train", "t7", "--dry-run").returncode == 0
    assert "t7" not in lab.members()
    assert json.loads(lab.ours("add", "train", "t7", "--json").stdout)["outcome"] == "added"
    assert "t7" in lab.members()
    assert lab.ours("remove", "train", "t7").returncode == 0
    assert "t7" not in lab.members()
    lab.cluster.scontrol("update", "NodeName=t7", "State=DRAIN", "Reason=firmware")
    drained = lab.ours("add", "train", "t7")
    assert drained.returncode == 3 and "firmware" in drained.stderr
    job, _ = lab.train()
    busy = lab.ours("remove", "train", lab.slurm.job(job).nodes[0])
    assert busy.returncode == 3 and "spare swap" in busy.stderr


@pytest.mark.long
def test_drill_measures_and_gives_everything_back(lab: WatchedCluster) -> None:
    lab.configure(f'filler_user = "{lab.cluster.user}"')
    folder = lab.cluster.work_dir("drill")
    before = lab.state_of_world(())
    done = lab.ours("drill", "train", "--json", "--folder", str(folder))
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads(done.stdout)
    print(done.stderr, found)
    assert {"decide", "requeue", "first_step"} <= set(found["phases"])
    wait_until(lambda: lab.state_of_world(()) == before, 60, f"as before: {before}", 0.3)
    (kept,) = lab.history()
    assert (kept["kind"], kept["bad"]) == ("drill", found["seats"]["nodes"][1])


@pytest.mark.long
def test_drill_that_is_killed_can_be_given_back(lab: WatchedCluster) -> None:
    lab.configure(f'filler_user = "{lab.cluster.user}"')
    folder = lab.cluster.work_dir("killed-drill")
    before = lab.state_of_world(())
    process = subprocess.Popen(
        lab.command("drill", "train", "--folder", str(folder)),
        env=lab.cluster.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: any(each.is_drained for each in lab.slurm.nodes()), 90, "fenced", 0.2)
    process.kill()
    process.wait()
    refused = lab.ours("drill", "train")
    assert refused.returncode == 3 and "slurm-io" in refused.stderr
    given = lab.ours("drill", "train", "--give-back")
    assert given.returncode == 0, given.stderr
    wait_until(lambda: lab.state_of_world(()) == before, 60, f"as before: {before}", 0.3)
    assert lab.ours("drill", "train", "--dry-run").returncode == 0


def test_drill_is_refused_where_work_would_be_touched(lab: WatchedCluster) -> None:
    lab.configure(f'filler_user = "{lab.cluster.user}"')
    lab.train("t1,t2,t3")
    refused = lab.ours("drill", "train", "--nodes", "3")
    assert refused.returncode == 3 and "idle" in refused.stderr
    assert not any(each.is_drained for each in lab.slurm.nodes())


def test_print_unit_names_this_python_and_keeps_swaps_alive(lab: WatchedCluster) -> None:
    unit = lab.ours("watch", "train", "--print-unit").stdout
    assert f"ExecStart={sys.executable} -m slurm_io spare watch train --config" in unit
    assert "KillMode=process" in unit and "Type=notify" in unit
