"""Every way a job can go on a real cluster, and that its report appears all the same."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from slurm_io.store.reader import open_job
from tests.labs.hooked_cluster import HookedCluster, Run

pytestmark = [pytest.mark.cluster, pytest.mark.root]
PAYLOAD = Path(__file__).with_name("payload.py")


def train(seconds: float, launcher: str = "") -> str:
    return f"{launcher} $PYTHON {PAYLOAD} {seconds}"


def count(ranks: object) -> int:
    """`ranks_seen` as a number, whether the report lists or counts them."""
    return len(ranks) if isinstance(ranks, list) else int(str(ranks))


def nothing_left(cluster: HookedCluster, run: Run) -> None:
    """The node's spool and runtime folders are gone, and so are the processes."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        spool = list((cluster.root / "spool").glob(f"*/{run.job}.*/*"))
        runtime = list((cluster.root / "run").glob(f"*/{run.job}"))
        if not spool and not runtime:
            return
        time.sleep(0.25)
    raise AssertionError(f"left behind: {spool} {runtime}\n{cluster.hooks_log}")


def test_one_node(cluster: HookedCluster) -> None:
    run = cluster.submit(train(6))
    assert run.wait() == "COMPLETED"
    assert "trained to the end" in run.output
    report = run.report()
    assert report["job"]["id"] == str(run.job)
    assert report["job"]["user"] == cluster.user
    coverage = report["coverage"]
    assert len(coverage["nodes_seen"]) == 1
    assert coverage["nodes_seen"] == coverage["nodes_expected"]
    assert count(coverage["ranks_seen"]) == 1
    assert report["time"]["steps"] > 50
    for path in [run.store(), run.folder / f"slurm-io-{run.job}.txt"]:
        assert path.owner() == cluster.user
        assert path.stat().st_mode & 0o077 == 0
    nothing_left(cluster, run)
    assert set(cluster.node_states().values()) == {"idle"}


def test_two_nodes_come_together_in_one_report(cluster: HookedCluster) -> None:
    run = cluster.submit(train(6, "srun"), nodes=2)
    assert run.wait() == "COMPLETED"
    report = run.report()
    deadline = time.monotonic() + 20
    while len(report["coverage"]["nodes_seen"]) != 2 and time.monotonic() < deadline:
        time.sleep(0.5)
        report = run.report()
    assert report["coverage"]["nodes_expected"] == ["t1", "t2"]
    assert sorted(report["coverage"]["nodes_seen"]) == ["t1", "t2"]
    assert count(report["coverage"]["ranks_seen"]) == 2
    assert sorted(open_job(run.store()).nodes) == ["t1", "t2"]
    nothing_left(cluster, run)


def kill_the_sampler(cluster: HookedCluster, run: Run, node: str) -> None:
    """Once it has written steps."""
    deadline = time.monotonic() + 30
    while not (found := list((cluster.root / "spool").glob(f"*/{run.job}.0/{node}/steps.arrows"))):
        assert time.monotonic() < deadline, cluster.hooks_log
        time.sleep(0.1)
    claim = json.loads((found[0].parent / "sampler.pid").read_text())
    os.kill(claim["pid"], signal.SIGKILL)


def test_a_killed_sampler_costs_no_step(cluster: HookedCluster) -> None:
    run = cluster.submit(train(10, "srun"), nodes=2)
    assert run.wait("RUNNING") == "RUNNING"
    kill_the_sampler(cluster, run, "t1")
    assert run.wait() == "COMPLETED"
    run.report()
    nothing_left(cluster, run)  # both nodes have delivered
    nodes = open_job(run.store()).nodes
    assert nodes["t1"].meta["clean_end"] is False
    assert nodes["t2"].meta["clean_end"] is True
    assert "leftover" not in nodes["t2"].meta
    for name in ("t1", "t2"):
        rows = nodes[name].table("steps", ["batch"])
        assert rows["batch"].to_pylist() == list(range(rows.num_rows))
        assert (rows["mono_ns"][-1].as_py() - rows["mono_ns"][0].as_py()) / 1e9 > 9


def test_a_requeued_job_has_a_report_for_each_of_its_runs(cluster: HookedCluster) -> None:
    script = f'[ "${{SLURM_RESTART_COUNT:-0}}" = 0 ] && t=60 || t=4\n{train(0)[:-1]}$t'
    run = cluster.submit(script, "--requeue")
    run.wait("RUNNING")
    time.sleep(4)
    cluster.scontrol("requeue", str(run.job))
    assert run.wait(timeout_s=120) == "COMPLETED"
    first, second = run.report(restart=0), run.report(restart=1)
    assert [first["job"]["restart"], second["job"]["restart"]] == [0, 1]
    assert first["job"]["id"] == second["job"]["id"]
    nothing_left(cluster, run)


def test_a_cancelled_job_has_its_report(cluster: HookedCluster) -> None:
    run = cluster.submit(train(120))
    run.wait("RUNNING")
    time.sleep(4)
    cluster.cancel(run.job)
    assert run.wait() == "CANCELLED"
    assert run.report()["time"]["steps"] > 10
    nothing_left(cluster, run)


def test_a_job_of_one_second_has_its_report(cluster: HookedCluster) -> None:
    run = cluster.submit("sleep 1")
    assert run.wait() == "COMPLETED"
    assert len(run.report()["coverage"]["nodes_seen"]) == 1
    nothing_left(cluster, run)


def test_a_failed_job_says_its_exit_code(cluster: HookedCluster) -> None:
    run = cluster.submit("sleep 1; exit 7")
    assert run.wait() == "FAILED"
    run.report_text()
    assert json.loads((run.store() / "job.json").read_text())["exit_code"] == 7


def test_a_node_that_died_delays_nothing_and_is_named(cluster: HookedCluster) -> None:
    run = cluster.submit(train(120, "srun"), "--no-requeue", nodes=2)
    run.wait("RUNNING")
    time.sleep(5)
    dead = cluster.job(run.job)["NodeList"]
    assert dead == "t[1-2]"
    cluster.kill_node("t2")
    assert run.wait(timeout_s=90) == "NODE_FAIL"
    report = run.report()
    assert report["coverage"]["nodes_expected"] == ["t1", "t2"]
    assert report["coverage"]["nodes_seen"] == ["t1"]
    assert "t2" in json.dumps(report["coverage"]["missing"])
    assert "t2" in run.report_text()
