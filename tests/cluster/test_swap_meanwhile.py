"""What others do while a swap of a real cluster is under way."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.labs.cluster_parts import wait_until
from tests.labs.spare_cluster import SpareCluster

pytestmark = [pytest.mark.cluster, pytest.mark.long]


def test_the_controller_is_away_for_a_while_in_the_middle(spares: SpareCluster) -> None:
    job, _ = spares.train()
    # What Slurm was told of t3 and has not written down yet would be lost with it.
    spares.fail("t3")
    wait_until(lambda: _is_kept(spares, b"ECC errors"), 60, "the state on disk", 0.5)
    pid = (spares.root / "slurmctld.pid").read_text().strip()
    again = f"slurmctld -f {spares.cluster.conf_path}"
    text = f"kill -9 {pid}; (sleep 8; exec {again}) >/dev/null 2>&1 </dev/null &"
    done = spares.deadly("during", "nodes:", text)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "t3" not in spares.members() and "t3" not in spares.slurm.job(job).nodes
    assert spares.slurm.job(job).state == "RUNNING"


def _is_kept(spares: SpareCluster, text: bytes) -> bool:
    try:
        return text in (spares.root / "state" / "node_state").read_bytes()
    except FileNotFoundError:  # slurmctld has not written it yet, or is just replacing it
        return False


def test_the_spare_is_drained_by_somebody_meanwhile(spares: SpareCluster) -> None:
    job, _ = spares.train()
    spares.fail("t3")
    text = "scontrol update NodeName=t4 State=DRAIN Reason=NHC:ib0"
    done = spares.deadly("during", "drain t3", text)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NHC:ib0" in done.stdout
    assert sorted(spares.slurm.job(job).nodes) == ["t1", "t2", "t5"]
    assert spares.slurm.node("t4").is_drained


def test_the_user_cancels_the_job_meanwhile(spares: SpareCluster) -> None:
    job, _ = spares.train()
    spares.fail("t3")
    done = spares.deadly("during", "nodes:", f"scancel {job}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cancelled meanwhile" in done.stdout
    assert "t3" not in spares.members()


def test_the_bad_node_comes_back_meanwhile_and_stays_out(spares: SpareCluster) -> None:
    job, _ = spares.train()
    filler = [spares.fill("t4"), spares.fill("t5")]
    spares.kill("t3")
    spares.configure(standby="")
    again = f"slurmd -f {spares.cluster.conf_path} -N t3; sleep 3"
    done = spares.deadly("during", "requeue and hold", again)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: spares.slurm.node("t3").is_responding, 40, "t3 answers", 0.3)
    assert spares.slurm.node("t3").is_drained and "t3" not in spares.slurm.job(job).nodes
    assert all(not spares.slurm.job(each).is_held for each in filler)


def test_an_administrators_change_meanwhile_is_refused(spares: SpareCluster) -> None:
    spares.train()
    spares.fail("t3")
    text = "scontrol update ReservationName=train Nodes=t[1-5],t8"
    done = spares.deadly("during", "drain t3", text)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "somebody changed it" in done.stdout
    assert sorted(spares.members()) == ["t1", "t2", "t3", "t4", "t5", "t8"]
    assert "somebody changed it" in spares.paged


def test_ctrl_c_in_the_grace_ends_a_swap_that_did_nothing(spares: SpareCluster) -> None:
    spares.config.write_text(spares.config.read_text().replace("grace_s = 2", "grace_s = 600"))
    spares.fail("t3")
    before = spares.state_of_world(())
    words = spares.command("swap", "train", "t3", "--yes")
    with subprocess.Popen(
        words, env=spares.cluster.env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as swap:
        assert swap.stderr is not None
        told = swap.stderr.readline()
        assert told.startswith("slurm-io: t3 has looked bad for") and "spares.grace_s" in told
        swap.send_signal(signal.SIGINT)
        assert "stopped: nothing was done" in swap.stderr.read()
        assert swap.wait(60) != 0
    again = spares.ours("swap", "train", "--roll-back")
    assert again.returncode == 2 and "no swap of reservation train is unfinished" in again.stderr
    assert spares.state_of_world(()) == before
