"""Checks on a real cluster: users' mistakes drain nothing, a faulty node drains, a wave alerts."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.prolog.blast_radius import is_own_drain
from slurm_io.slurm.node_state import parse_nodes
from tests.labs.cluster_parts import wait_until
from tests.labs.hooked_cluster import HookedCluster, Run
from tests.labs.mounts import unmount_lazily
from tests.labs.slowfs import SlowFs, fuse_missing
from tests.labs.slowfs_settings import SlowFsSettings

pytestmark = [pytest.mark.cluster, pytest.mark.root]
NO_PROFILE = "profile=off"  # these tests ask for verdicts; the sampler has its own
BAD_SPECS = (
    "dataset=nowhere", "dataset=c4@0000", "dataset=/etc", "dataset=", "tier=ssd", "ckpt=relative",
    "ckpt=/etc/shadow", "ckpt=/proc/1/root", "ckpt=/dev/zero", "ckpt=/nonexistent/deep/path",
    "ckpt=/" + "a/" * 400, "ckpt=/" + "b" * 900, "x" * 900, "dataset=c4 check=hold", "\x1b[2J",
    "dataset=c4 tier=local", "check=hold ckpt=/", "dataset=c4 ckpt=%2fetc", "=",
    "dataset=c4 dataset=c4",
)  # fmt: skip


@pytest.fixture
def mounts(cluster: HookedCluster) -> Iterator[Path]:
    """The folder whose ``<node>`` must be a mount (see `faulty_config`); nothing is left behind."""
    folder = cluster.root / "mnt"
    folder.mkdir(exist_ok=True)
    for node in cluster.node_names:
        (folder / node).mkdir(exist_ok=True)
    try:
        yield folder
    finally:
        for node in cluster.node_names:
            unmount_lazily(folder / node)
        cluster.install_hooks()
        cluster.forget_faults()


def mount(path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "lab", path], check=True)


def faulty_config(folder: Path, policy: str = "drain", checks: str = "settle_s = 1.5") -> str:
    return f"""
[checks]
{checks}
[check.mounts]
required = ["{folder}/%n fstype=tmpfs"]
policy = "{policy}"
"""


def dataset_config(path: Path, policy: str = "warn") -> str:
    return f"""
[dataset.c4]
shared = "{path}"
[check.dataset]
policy = "{policy}"
"""


def submit(cluster: HookedCluster, request: str, *options: str, nodes: int = 1) -> Run:
    comment = f"--comment=slurm-io: {NO_PROFILE} {request}"
    return cluster.submit("echo ran", comment, *options, nodes=nodes)


def assert_all_idle(cluster: HookedCluster) -> None:
    cluster.heal()
    assert cluster.drains() == {}


@pytest.mark.parametrize(
    ("policy", "state", "ran"), [("warn", "COMPLETED", True), ("stop", "FAILED", False)]
)
def test_a_missing_dataset_is_told_and_the_policy_decides(
    cluster: HookedCluster, policy: str, state: str, ran: bool
) -> None:
    cluster.install_hooks(extra_config=dataset_config(cluster.root / "nothing", policy))
    run = submit(cluster, "dataset=c4")
    assert run.wait() == state
    assert "slurm-io: dataset FAIL on t" in run.output
    assert ("ran" in run.output.splitlines()) == ran
    assert_all_idle(cluster)


def test_check_hold_stops_where_the_site_would_only_warn(cluster: HookedCluster) -> None:
    cluster.install_hooks(extra_config=dataset_config(cluster.root / "nothing"))
    run = submit(cluster, "dataset=c4 check=hold")
    assert run.wait() == "FAILED"
    assert "the job was stopped before it began" in run.output
    assert_all_idle(cluster)


def bad_specs_drain_nothing(cluster: HookedCluster, count: int) -> None:
    cluster.install_hooks(extra_config=dataset_config(cluster.root / "nothing", "drain"))
    runs = []
    for number in range(count):
        spec = BAD_SPECS[number % len(BAD_SPECS)]
        runs.append(cluster.submit("echo ran", f"--comment=slurm-io: {spec}", "--ntasks=1"))
    for run in runs:
        assert run.wait(timeout_s=60.0 + 2.0 * count) in ("COMPLETED", "FAILED")
    assert_all_idle(cluster)


def test_20_bad_specs_drain_nothing(cluster: HookedCluster) -> None:
    bad_specs_drain_nothing(cluster, 20)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_200_bad_specs_drain_nothing(cluster: HookedCluster) -> None:
    bad_specs_drain_nothing(cluster, 200)


def jobs_start_though_a_mount_hangs(cluster: HookedCluster, tmp_path: Path, count: int) -> None:
    """Each by the prolog's deadline (3 s) plus what Slurm itself takes to start a job."""
    mountpoint = cluster.root / "hung"
    config = f'[check.mounts]\nrequired = ["{mountpoint}"]\npolicy = "warn"\n'
    with SlowFs(tmp_path / "back", mountpoint) as slow:
        cluster.install_hooks(extra_config=config)
        slow.change(SlowFsSettings(hang_globs=("*",)))
        try:
            for _ in range(count):
                run = submit(cluster, "", "--ntasks=1")
                began_s = time.monotonic()
                assert run.wait() == "COMPLETED"
                assert time.monotonic() - began_s < 10.0
                assert "ran" in run.output.splitlines()
                assert "slurm-io: mounts " in run.output
        finally:
            slow.change(SlowFsSettings())
    assert_all_idle(cluster)
    cluster.forget_faults()


def test_5_jobs_start_though_a_mount_hangs(cluster: HookedCluster, tmp_path: Path) -> None:
    if (reason := fuse_missing()) is not None:
        pytest.skip(reason)
    jobs_start_though_a_mount_hangs(cluster, tmp_path, 5)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_100_jobs_start_though_a_mount_hangs(cluster: HookedCluster, tmp_path: Path) -> None:
    if (reason := fuse_missing()) is not None:
        pytest.skip(reason)
    jobs_start_though_a_mount_hangs(cluster, tmp_path, 100)


def test_one_faulty_node_drains_with_our_reason_and_comes_back_by_ours_only(
    cluster: HookedCluster, mounts: Path
) -> None:
    for node in ("t1", "t3", "t4"):
        mount(mounts / node)
    cluster.install_hooks(extra_config=faulty_config(mounts))
    run = submit(cluster, "", "--nodelist=t2")
    assert run.wait() == "FAILED"
    assert "t2 is faulty: nothing was started there. Submit the job again." in run.output
    wait_until(lambda: "t2" in cluster.drains(), 20, "t2 drained")
    assert cluster.drains()["t2"].startswith("slurm_io: mounts: ")
    assert set(cluster.drains()) == {"t2"}

    code, said = cluster.check_by_hand("--node-only", "--only=mounts", "--node=t2", "--undrain")
    assert code == 1
    assert "mounts answers FAIL still" in said
    mount(mounts / "t2")
    reason = cluster.drains()["t2"]
    cluster.scontrol("update", "NodeName=t2", "State=DRAIN", "Reason=the admin's")
    code, said = cluster.check_by_hand("--node-only", "--only=mounts", "--node=t2", "--undrain")
    assert "not ours" in said
    cluster.scontrol("update", "NodeName=t2", "State=DRAIN", f"Reason={reason}")
    code, said = cluster.check_by_hand("--node-only", "--only=mounts", "--node=t2", "--undrain")
    assert "t2 is back in service" in said, said
    assert code == 0
    assert cluster.drains() == {}
    assert "slurm_io" not in cluster.scontrol("-o", "show", "node", "t2")
    cluster.heal()
    run = submit(cluster, "", "--nodelist=t2")
    assert run.wait() == "COMPLETED"


def test_the_same_fault_on_3_of_4_nodes_drains_none_and_alerts(
    cluster: HookedCluster, mounts: Path
) -> None:
    mount(mounts / "t1")
    cluster.install_hooks(extra_config=faulty_config(mounts))
    before = cluster.hooks_log.count("ALERT")
    run = cluster.submit("srun -N4 -n4 echo ran", f"--comment=slurm-io: {NO_PROFILE}", nodes=4)
    run.wait()
    wait_until(lambda: cluster.hooks_log.count("ALERT") >= before + 3, 30, "three alerts")
    assert "3 of 4 nodes fail it alike (t2, t3, t4)" in cluster.hooks_log
    assert_all_idle(cluster)
    # Fail open: nobody can repair a cluster by failing its jobs one after the other.
    run = submit(cluster, "", "--nodelist=t3")
    assert run.wait() == "COMPLETED"
    assert "mounts FAIL on t3" in run.output
    # Mended: the next job takes the node's mark back.
    mount(mounts / "t3")
    cluster.heal()
    run = submit(cluster, "", "--nodelist=t3")
    assert run.wait() == "COMPLETED"
    assert "mounts FAIL" not in run.output
    shown = ("-o", "show", "node", "t3")
    wait_until(lambda: "slurm_io:failing" not in cluster.scontrol(*shown), 20, "no mark")
    assert_all_idle(cluster)


def test_one_after_the_other_the_third_node_takes_the_drains_of_the_first_two_back(
    cluster: HookedCluster, mounts: Path
) -> None:
    """Too far apart to be seen at once. Two may drain (half of four), the third makes a wave."""
    mount(mounts / "t1")
    config = faulty_config(mounts, checks="settle_s = 0.2\nblast_share = 0.5")
    cluster.install_hooks(extra_config=config)
    for node in ("t2", "t3"):
        assert submit(cluster, "", f"--nodelist={node}").wait() == "FAILED"
        wait_until(lambda: node in cluster.drains(), 20, f"{node} drained")  # noqa: B023
    assert set(cluster.drains()) == {"t2", "t3"}
    before = cluster.hooks_log.count("ALERT")
    third = submit(cluster, "", "--nodelist=t4")
    assert third.wait() == "COMPLETED", "it joins a wave: nothing is stopped any more"
    assert "mounts FAIL on t4" in third.output
    wait_until(lambda: cluster.drains() == {}, 20, "nothing drained")
    wait_until(lambda: cluster.hooks_log.count("ALERT") == before + 1, 20, "an alert")
    assert "3 of 4 nodes fail it alike (t2, t3, t4), at most 2 may drain" in cluster.hooks_log
    assert "given back: t2, t3" in cluster.hooks_log
    cluster.heal()
    again = submit(cluster, "", "--nodelist=t2")
    assert again.wait() == "COMPLETED"
    assert "mounts FAIL on t2" in again.output
    assert_all_idle(cluster)


def test_in_a_wave_the_policy_stop_becomes_a_warning(cluster: HookedCluster, mounts: Path) -> None:
    mount(mounts / "t1")
    config = faulty_config(mounts, "stop", "settle_s = 0.2\nblast_share = 0.5")
    cluster.install_hooks(extra_config=config)
    shown = ("-o", "show", "node")
    for node in ("t2", "t3"):
        run = submit(cluster, "", f"--nodelist={node}")
        assert run.wait() == "FAILED"
        assert "the job was stopped before it began" in run.output
        marked = f"NodeName={node} .*slurm_io:failing:mounts@"
        wait_until(lambda: re.search(marked, cluster.scontrol(*shown)), 20, marked)  # noqa: B023
    before = cluster.hooks_log.count("ALERT")
    for node in ("t4", "t2"):
        run = submit(cluster, "", f"--nodelist={node}")
        assert run.wait() == "COMPLETED"
        assert f"mounts FAIL on {node}" in run.output
    wait_until(lambda: cluster.hooks_log.count("ALERT") >= before + 1, 20, "an alert")
    assert_all_idle(cluster)


def test_with_drain_exit_the_job_is_requeued_and_the_reason_is_ours(
    cluster: HookedCluster, mounts: Path
) -> None:
    for node in ("t1", "t3", "t4"):
        mount(mounts / node)
    config = faulty_config(mounts, checks="deadline_s = 1.5\nsettle_s = 0.2\ndrain_exit = true")
    cluster.install_hooks(extra_config=config)
    run = submit(cluster, "", "--nodelist=t2", "--requeue")
    wait_until(lambda: cluster.job(run.job)["Restarts"] == "1", 30, "requeued")
    assert run.wait("PENDING") == "PENDING"
    assert cluster.drains()["t2"].startswith("slurm_io: mounts: ")
    (own,) = parse_nodes(cluster.scontrol("-o", "show", "node", "t2"))
    assert is_own_drain(own, "mounts"), "Slurm adds no words of its own"
    cluster.cancel(run.job)
    assert set(cluster.drains()) == {"t2"}


SHARDS = 40


def requests(slow: SlowFs) -> int:
    """What the file system was asked: opens, listings and stats."""
    classes = slow.ledger()["classes"]
    return sum(classes.get(name, {"count": 0})["count"] for name in ("open", "list", "stat"))


def test_of_two_nodes_at_once_one_opens_the_shared_data(
    cluster: HookedCluster, tmp_path: Path
) -> None:
    if (reason := fuse_missing()) is not None:
        pytest.skip(reason)
    back, shared = tmp_path / "back", cluster.root / "shared"
    back.mkdir()
    for number in range(SHARDS):
        (back / f"shard{number}").write_bytes(b"x" * 100)
    manifest = cluster.root / "c4.jsonl"
    build = ["dataset", "manifest", "build", back, "-o", manifest, "--form", "jsonl"]
    subprocess.run(
        [sys.executable, "-m", "slurm_io", *build, "--dataset=c4"], check=True, capture_output=True
    )
    with SlowFs(back, shared, attr_timeout_s=0.0) as slow:
        lines = f'shared = "{shared}"\nmanifest = "{manifest}"\nlevel = 1\n'
        cluster.install_hooks(extra_config=f"[dataset.c4]\n{lines}")
        counts = []
        for nodes in (1, 2, 4):
            before = requests(slow)
            run = submit(cluster, "dataset=c4", nodes=nodes)
            assert run.wait() == "COMPLETED"
            assert "dataset" not in run.output
            counts.append(requests(slow) - before)
            cluster.heal()
    # Each node's mounts check looks at the mount's root; every shard is the leader's alone.
    one, two, four = counts
    assert one >= SHARDS
    assert two - one < SHARDS / 2
    assert four - one < SHARDS


def test_by_hand_and_by_the_prolog_the_answers_agree(cluster: HookedCluster, mounts: Path) -> None:
    cluster.install_hooks(extra_config=faulty_config(mounts, "warn"))
    code, said = cluster.check_by_hand("--only=mounts", "--node=t1")
    assert code == 1
    assert "FAIL" in said
    run = submit(cluster, "", "--nodelist=t1")
    assert run.wait() == "COMPLETED"
    told = next(line for line in run.output.splitlines() if "mounts FAIL" in line)
    with contextlib.suppress(ValueError):
        assert told.split(": ", 2)[2][:60] in said
    cluster.heal()
