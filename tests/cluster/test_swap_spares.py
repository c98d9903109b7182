"""Which spare takes over on a real cluster, and when none does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.conftest import require_cluster
from tests.labs.cluster import SlurmCluster
from tests.labs.cluster_parts import wait_until
from tests.labs.spare_cluster import EXTRA, SpareCluster

pytestmark = [pytest.mark.cluster, pytest.mark.long]


def test_the_dataset_of_a_spare_is_verified_before_it_takes_over(spares: SpareCluster) -> None:
    """t5's copy lacks bytes, which t5 says by itself. t4's is changed after it was chosen, which
    its verification finds. t6 from outside takes over."""
    spares.stage(*spares.cluster.node_names)
    job, training = spares.train()
    copies = spares.root / "nodes"
    with (copies / "t5" / "c4" / "shard-2.bin").open("r+b") as file:
        file.truncate(1000)
    spares.fail("t3")
    named = spares.swap("--force", "--spare", "t5")
    assert named["state"] == "no-spare" and "1 truncated" in named["text"], named
    assert any("dataset stage c4 --to t5" in line for line in named["plan_b"]), named

    change = f"printf other | dd of={copies}/t4/c4/shard-1.bin conv=notrunc status=none"
    done = spares.deadly("during", "in the reservation, idle", change)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "t4: its copy is not whole" in done.stdout, done.stdout
    assert sorted(spares.members()) == ["t1", "t2", "t4", "t5", "t6"]
    # Slurm would start it on t4 or t5, which are idle in the reservation and were found unfit.
    assert sorted(spares.slurm.job(job).nodes) == ["t1", "t2", "t6"]
    assert len(training.starts) == 2


def test_a_job_pinned_to_the_dead_node_runs_again(spares: SpareCluster) -> None:
    job, training = spares.train()
    spares.kill("t3")
    answer = spares.swap()
    assert answer["state"] == "done", answer
    assert spares.slurm.job(job).pinned_to == ("t1", "t2") and len(training.starts) == 2


def both_are_down(spares: SpareCluster) -> bool:
    return {spares.slurm.node(name).base for name in ("t2", "t3")} == {"DOWN"}


def test_two_failures_and_one_spare_change_nothing(spares: SpareCluster) -> None:
    spares.cluster.scontrol("update", "ReservationName=train", "Nodes=t[1-4]")
    spares.configure(standby="")
    job, _ = spares.train()
    spares.cluster.kill_node("t2")
    spares.cluster.kill_node("t3")
    wait_until(lambda: both_are_down(spares), 60, "both down", 0.3)
    answer = spares.swap()
    assert (answer["state"], answer["rc"]) == ("no-spare", 3), answer
    assert any("run on 2 nodes" in line for line in answer["plan_b"])
    assert any("borrow" in line for line in answer["plan_b"])
    assert spares.members() == ["t1", "t2", "t3", "t4"] and spares.slurm.job(job).state == "PENDING"
    assert not spares.slurm.node("t2").is_drained
    assert "no spare" in spares.paged or "can take over" in spares.paged


def test_a_foreign_job_on_the_standby_node_means_another_spare(spares: SpareCluster) -> None:
    spares.cluster.scontrol("update", "ReservationName=train", "Nodes=t[1-3]")
    foreign = spares.cluster.sbatch("#!/bin/sh\nsleep 600\n", "-w", "t6")
    spares.cluster.wait(foreign, "RUNNING")
    job, _ = spares.train()
    spares.fail("t3")
    answer = spares.swap("--force")
    assert answer["state"] == "no-spare" and "does not give way" in answer["text"], answer
    assert spares.slurm.job(str(foreign)).state == "RUNNING"
    spares.configure(standby="t[6-7]")
    answer = spares.swap("--force")
    assert (answer["state"], answer["facts"]["spare"]) == ("done", "t7"), answer
    assert sorted(spares.slurm.job(job).nodes) == ["t1", "t2", "t7"]
    assert sorted(spares.members()) == ["t1", "t2", "t7"]


def test_a_spare_whose_prolog_fails_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm drains it, and holds the job: that is released because somebody said so."""
    require_cluster()
    tmp_path.chmod(0o755)
    prolog = tmp_path / "prolog.sh"
    prolog.write_text(f"#!/bin/sh\n[ ! -e {tmp_path}/$SLURMD_NODENAME ]\n")
    prolog.chmod(0o755)
    with SlurmCluster(nodes=8, dbd=False, extra=EXTRA, prolog=prolog) as cluster:
        monkeypatch.setenv("SLURM_CONF", str(cluster.conf_path))
        spares = SpareCluster(cluster)
        spares.make_reservation()
        spares.configure(reach="direct")
        job, training = spares.train()
        spares.fail("t3")
        done = spares.deadly("during", "nodes:", f"touch {tmp_path}/t4")
        assert done.returncode == 0, done.stdout + done.stderr + cluster.logs()
        assert "Prolog error" in done.stdout
        assert sorted(spares.slurm.job(job).nodes) == ["t1", "t2", "t5"]
        # 22.05 starts the script when its own node's prolog is done, and ends it again.
        assert spares.slurm.node("t4").is_drained and training.starts[-1][1] == "t[1-2,5]"
