"""What users write into --comment, on a real cluster."""

from __future__ import annotations

import pytest

from tests.labs.hooked_cluster import HookedCluster

pytestmark = [pytest.mark.cluster, pytest.mark.root]
SCRIPT = "echo ran; srun echo step; srun echo step"


def test_a_bad_comment_is_told_once_and_the_job_runs(cluster: HookedCluster) -> None:
    run = cluster.submit(SCRIPT, "--comment=slurm-io: tier=ssd", nodes=2)
    assert run.wait() == "COMPLETED"
    lines = [line for line in run.output.splitlines() if "slurm-io" in line]
    assert len(lines) == 1
    assert "tier must be local or shared, not 'ssd'" in lines[0]
    assert "ran" in run.output
    assert run.output.count("step") == 4
    assert run.report_text()
    cluster.heal()
    assert set(cluster.node_states().values()) == {"idle"}


def test_policy_stop_fails_the_job_with_the_reason_and_keeps_the_node(
    cluster: HookedCluster,
) -> None:
    cluster.install_hooks(extra_config='[policy]\nbad_request = "stop"\n')
    run = cluster.submit(SCRIPT, "--comment=slurm-io: tier=ssd")
    assert run.wait() == "FAILED"
    assert "tier must be local or shared" in run.output
    assert "ran" not in run.output
    cluster.heal()
    assert set(cluster.node_states().values()) == {"idle"}


def test_profile_off_leaves_no_trace(cluster: HookedCluster) -> None:
    run = cluster.submit("env", "--comment=slurm-io: profile=off")
    assert run.wait() == "COMPLETED"
    assert "SLURM_IO_RING_DIR" not in run.output
    cluster.heal()
    assert [path.name for path in run.folder.iterdir()] == [f"slurm-{run.job}.out"]


@pytest.mark.parametrize(
    "comment", ["slurm-io: ckpt=/a\nexport", "slurm-io: \x1b[2J", "slurm-io: " + "x" * 1000]
)
def test_a_hostile_comment_is_one_printable_line(cluster: HookedCluster, comment: str) -> None:
    run = cluster.submit("echo ran", f"--comment={comment}")
    assert run.wait() == "COMPLETED"
    told = [line for line in run.output.splitlines() if line != "ran"]
    assert len(told) == 1
    assert told[0].isprintable()
    assert len(told[0]) < 300
    cluster.heal()
    assert set(cluster.node_states().values()) == {"idle"}
