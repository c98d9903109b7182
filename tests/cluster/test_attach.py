"""`slurm-io attach` on a real cluster: the owner on all nodes, root on one, strangers nowhere."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import slurm_io
from slurm_io.store.reader import open_job
from tests.labs.cluster_parts import processes_naming, program, wait_until
from tests.labs.hooked_cluster import HookedCluster

pytestmark = [pytest.mark.cluster, pytest.mark.root]
PAYLOAD = Path(__file__).with_name("payload.py")
OURS = Path(slurm_io.__file__).parents[1]
STRANGER = "man"  # an account that every Debian has, and that no other test uses
UNPROFILED = "--comment=slurm-io: profile=off"


def start_attach(
    cluster: HookedCluster, user: str, folder: Path, *arguments: str
) -> subprocess.Popen[str]:
    """The command as `user`, on a machine that is a login node and all compute nodes in one."""
    account = pwd.getpwnam(user)
    python = cluster.user_python()
    path = python.path if user != "root" else sys.executable
    return subprocess.Popen(
        [path, "-m", "slurm_io", "attach", *arguments],
        cwd=folder,
        env={**cluster.env, "PYTHONPATH": f"{python.packages}:{OURS}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
    )


def attach(cluster: HookedCluster, user: str, folder: Path, *arguments: str) -> tuple[int, str]:
    """(exit code, stderr)."""
    process = start_attach(cluster, user, folder, *arguments)
    try:
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    return process.returncode, err


def report_in(store: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((store / "report.json").read_text())
    return content


def ranks_in(store: Path) -> dict[str, list[int]]:
    """Node -> the ranks that were seen there."""
    return {
        name: sorted(rank["rank"] for rank in node.meta["ranks"])
        for name, node in open_job(store).nodes.items()
    }


def wait_for_tasks(cluster: HookedCluster, job: int, tasks: int) -> None:
    """Until the job's tasks have become Python: RUNNING says less."""
    marks = {f"SLURM_JOB_ID={job}", f"SLURM_CONF={cluster.conf_path}"}

    def there() -> bool:
        found = 0
        for pid in processes_naming(str(PAYLOAD)):
            with contextlib.suppress(OSError):
                is_python = "python" in Path(f"/proc/{pid}/exe").readlink().name
                environ = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
                found += is_python and marks <= set(environ)
        return found >= tasks

    wait_until(there, 30, f"{tasks} tasks of job {job}")


def leftovers(cluster: HookedCluster) -> list[str]:
    """Spools of attaches to this cluster's jobs, whoever made them."""
    found = []
    for path in Path("/tmp").glob("slurm-io-spool-*/sampler.json"):
        with contextlib.suppress(OSError):
            if str(cluster.root) in path.read_text():  # the job's working directory
                found.append(str(path.parent))
    return found


@contextlib.contextmanager
def strangers_job(cluster: HookedCluster, node: str, seconds: int) -> Iterator[tuple[int, Path]]:
    """(job, work folder) of another user's job."""
    folder, account = cluster.work_dir(f"stranger-{node}"), pwd.getpwnam(STRANGER)
    os.chown(folder, account.pw_uid, account.pw_gid)
    python = cluster.user_python()
    script = f"#!/bin/sh\nexec {python.path} {PAYLOAD} {seconds}\n"
    done = subprocess.run(
        [program("sbatch"), "--parsable", f"--chdir={folder}", f"--nodelist={node}", UNPROFILED],
        input=script, env=cluster.env, cwd="/", capture_output=True, text=True, check=True,
        user=account.pw_uid, group=account.pw_gid, extra_groups=[],
    )  # fmt: skip
    job = int(done.stdout)
    try:
        yield job, folder
    finally:
        cluster.scontrol("update", f"JobId={job}", "TimeLimit=1")
        subprocess.run([program("scancel"), str(job)], env=cluster.env, check=True)


def test_the_owner_reaches_all_nodes_and_reads_the_hooks_along(cluster: HookedCluster) -> None:
    # Long enough for three attaches on a busy machine; the last one sees its end.
    run = cluster.submit(f"srun -n4 $PYTHON {PAYLOAD} 30", "--ntasks-per-node=2", nodes=2)
    wait_for_tasks(cluster, run.job, 4)
    by_root = [
        start_attach(
            cluster, "root", cluster.root, str(run.job), "--node", node, "-o", "by-root",
            "--duration", "6",
        )
        for node in ("t1", "t2")
    ]  # fmt: skip
    code, err = attach(cluster, cluster.user, run.folder, str(run.job), "--duration", "7")
    assert code == 0, err
    store = run.folder / f"slurm-io-{run.job}.attach"
    report = report_in(store)
    assert report["coverage"]["nodes_expected"] == ["t1", "t2"]
    assert report["coverage"]["nodes_seen"] == ["t1", "t2"]
    assert (report["coverage"]["hook"], report["coverage"]["ranks_seen"]) == ("on", 4)
    assert report["job"]["state"] == "RUNNING"
    assert sorted(rank for ranks in ranks_in(store).values() for rank in ranks) == [0, 1, 2, 3]
    assert {len(ranks) for ranks in ranks_in(store).values()} == {2}
    assert 4 <= report["time"]["wall_s"] <= 9

    out, told = zip(*(process.communicate(timeout=60) for process in by_root), strict=True)
    assert [process.returncode for process in by_root] == [0, 0], told
    assert "root does not reach t2" in told[0]
    assert "clush -w t2 'slurm-io attach" in told[0]
    assert [text[:9] for text in out if text] == ["slurm-io:"]  # whoever was last
    assert ranks_in(cluster.root / "by-root") == ranks_in(store)
    assert report_in(cluster.root / "by-root")["coverage"]["nodes_seen"] == ["t1", "t2"]

    to_the_end = start_attach(
        cluster, cluster.user, run.folder, str(run.job), "-o", "to-the-end", "--duration", "600"
    )
    assert run.wait() == "COMPLETED"
    _, told = to_the_end.communicate(timeout=60)
    assert to_the_end.returncode == 0, told
    assert report_in(run.folder / "to-the-end")["coverage"]["nodes_seen"] == ["t1", "t2"]
    whole = run.report()  # the job's own recording knows nothing of the two that looked along
    assert (whole["coverage"]["ranks_seen"], whole["coverage"]["gaps_s"]) == (4, 0)
    assert whole["time"]["training_s"] > 13
    assert leftovers(cluster) == []


def test_two_users_jobs_on_one_node_stay_apart(cluster: HookedCluster) -> None:
    run = cluster.submit(
        f"srun -n2 $PYTHON {PAYLOAD} 30", "--ntasks=2", "--nodelist=t1", UNPROFILED
    )
    with strangers_job(cluster, "t1", 30) as (job, folder):
        wait_for_tasks(cluster, run.job, 2)
        wait_for_tasks(cluster, job, 1)
        both = [
            start_attach(
                cluster, cluster.user, run.folder, str(run.job), "-o", "a", "--duration", "3"
            ),
            start_attach(cluster, STRANGER, folder, str(job), "-o", "a", "--duration", "3"),
        ]
        refused = [
            attach(cluster, cluster.user, run.folder, str(job), "-o", "b"),
            attach(cluster, STRANGER, folder, str(run.job), "-o", "b"),
        ]
        told = [process.communicate(timeout=60)[1] for process in both]
        assert [process.returncode for process in both] == [0, 0], told
        long = start_attach(
            cluster, cluster.user, run.folder, str(run.job), "-o", "d", "--duration", "600"
        )
        wait_until(lambda: (run.folder / "d/job.t1.json").exists(), 30, "an attach under way")
        long.send_signal(signal.SIGINT)
        _, stopped = long.communicate(timeout=60)
        assert long.returncode == 0, stopped
        over = attach(cluster, cluster.user, run.folder, str(run.job), "--node", "t3")
    cluster.cancel(run.job)
    assert ranks_in(run.folder / "a") == {"t1": [0, 1]}
    assert ranks_in(folder / "a") == {"t1": [0]}
    for store, user in ((run.folder / "a", cluster.user), (folder / "a", STRANGER)):
        report = report_in(store)
        assert (report["job"]["user"], report["coverage"]["hook"]) == (user, "off")
        assert report["outside"]["seen"][0]["role"] == "rank"
    assert "stopping: the nodes seal and deliver" in stopped
    assert ranks_in(run.folder / "d") == {"t1": [0, 1]}
    assert [code for code, _ in refused] == [3, 3]
    assert f"belongs to {STRANGER}: only {STRANGER} can attach" in refused[0][1]
    assert f"belongs to {cluster.user}: only {cluster.user} can attach" in refused[1][1]
    assert not (run.folder / "b").exists() and not (folder / "b").exists()
    assert over == (2, f"slurm-io: job {run.job} does not run on t3: it has t1\n")
    assert run.wait() == "CANCELLED"
    code, err = attach(cluster, cluster.user, run.folder, str(run.job), "-o", "c")
    assert (code, "is over (CANCELLED)" in err) == (3, True)
    assert leftovers(cluster) == []
