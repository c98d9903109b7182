"""Two jobs of two users on one node at the same time: each report is about its own job only.

Once with the session's cluster (proctrack/linuxproc, no control groups: `scontrol listpids` and
environments tell) and once with Slurm's own cgroup v1 plugins.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.store.reader import JobStore, open_job
from tests.cluster.conftest import require_cluster
from tests.labs.cgroups import groups_missing
from tests.labs.cluster_parts import second_account
from tests.labs.hooked_cluster import HookedCluster, Run

pytestmark = [pytest.mark.cluster, pytest.mark.root]
PAYLOAD = Path(__file__).with_name("payload.py")
CGROUP_CONF = "CgroupPlugin=cgroup/v1\nConstrainRAMSpace=yes\nCgroupAutomount=no\n"


class CgroupCluster(HookedCluster):
    """With Slurm's cgroup v1 plugins."""

    def stop(self) -> None:
        super().stop()
        for folder in Path("/sys/fs/cgroup").glob("*/slurm_t*"):
            with contextlib.suppress(OSError):  # another cluster's is not empty
                for below in sorted(folder.glob("uid_*"), reverse=True):
                    below.rmdir()
                folder.rmdir()

    def _slurm_conf(self) -> str:
        (self.root / "cgroup.conf").write_text(CGROUP_CONF)
        text = super()._slurm_conf().replace("proctrack/linuxproc", "proctrack/cgroup")
        return text.replace("task/none", "task/cgroup")


@pytest.fixture
def cgroup_cluster() -> Iterator[CgroupCluster]:
    require_cluster()
    if reason := groups_missing("v1"):
        pytest.skip(reason)
    with CgroupCluster(nodes=1, dbd=False) as cluster:
        yield cluster


def two_jobs(cluster: HookedCluster) -> tuple[Run, Run]:
    """Run at the same time on t1; the second user's first task has an empty environment."""
    train = f"$PYTHON {PAYLOAD} 9"
    with second_account() as other:
        first = cluster.submit(train, "--nodelist=t1", "--ntasks=1")
        with cluster.acting_as(other):
            bare = f"srun --overlap env -i /bin/sleep 9 &\n{train}\nwait"
            second = cluster.submit(bare, "--nodelist=t1", "--ntasks=1")
        first.wait("RUNNING")
        second.wait("RUNNING")
        assert first.wait() == "COMPLETED", first.output
        assert second.wait() == "COMPLETED", second.output
        for run in (first, second):
            assert run.report()["coverage"]["ranks_seen"] == 1
            assert run.report()["coverage"]["nodes_seen"] == ["t1"]
        assert second.store().owner() == other
        return first, second


def processes(store: JobStore) -> set[tuple[int, int, str]]:
    """(pid, start time, name) of every process in a store."""
    rows = store.table("process", ["pid", "starttime", "comm"]).to_pylist()
    return {(row["pid"], row["starttime"], row["comm"]) for row in rows}


def not_mixed(first: JobStore, second: JobStore) -> None:
    one, two = processes(first), processes(second)
    assert not {who[:2] for who in one} & {who[:2] for who in two}
    assert not any(comm == "sleep" for _, _, comm in one), one
    assert sum(comm == "sleep" for _, _, comm in two) == 1, two
    for found in (one, two):
        assert sum(comm.startswith("python") for _, _, comm in found) == 1, found


def found_by(store: JobStore) -> dict[str, int]:
    by: dict[str, int] = store.nodes["t1"].meta["processes"]["found_by"]
    return by


def test_two_users_on_one_node_without_control_groups(cluster: HookedCluster) -> None:
    first, second = (open_job(run.store()) for run in two_jobs(cluster))
    not_mixed(first, second)
    assert found_by(first).keys() <= {"environ", "parent", "listpids", "ring"}
    # The sleep's environment is empty and its parent is slurmstepd: only Slurm knows whose it is.
    listed = second.nodes["t1"].meta["processes"]["listpids"]
    assert listed["asked"] >= 1 and listed["failures"] == 0, listed


def test_two_users_on_one_node_with_slurms_control_groups(cgroup_cluster: CgroupCluster) -> None:
    runs = two_jobs(cgroup_cluster)
    stores = [open_job(run.store()) for run in runs]
    not_mixed(stores[0], stores[1])
    for run, store in zip(runs, stores, strict=True):
        assert found_by(store)["cgroup"] >= 1
        assert found_by(store).keys() <= {"cgroup", "parent"}
        rows = store.table("cgroup", ["path", "version", "mem_current_bytes"]).to_pylist()
        assert {row["path"].rpartition("/")[2] for row in rows} == {f"job_{run.job}"}
        assert {row["version"] for row in rows} == {1}
        assert max(row["mem_current_bytes"] for row in rows) > 1 << 20
        assert store.nodes["t1"].meta["sources"]["cgroup"]["state"] == "partial"
