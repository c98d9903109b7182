"""Two jobs on one node: real processes in real control groups of both versions."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_io.collectors.base import Context
from slurm_io.collectors.cgroup import Cgroup
from slurm_io.model import JobIdentity, SamplerSpec
from slurm_io.sampler.discovery import Discovery
from tests.collectors.fake_host import rows_at
from tests.labs.cgroups import SlurmGroups, Version, groups_missing

pytestmark = pytest.mark.root

# A process with three children, one of which has a child in a session of its own. They are started
# when the line comes, so that they are born in the group. The tree is no child of the sampler's.
TREE = """
import os, sys, time
root = os.fork()
if root:
    print(root, flush=True)
    os.waitpid(root, 0)
    os._exit(0)
sys.stdin.readline()

for number in range(3):
    if os.fork() == 0:
        if number == 1 and os.fork() == 0:
            os.setsid()
        time.sleep(300)
        os._exit(0)
print("ready", flush=True)
held = bytearray(3 << 20)
time.sleep(300)
"""


@contextlib.contextmanager
def tree(join: Callable[[int], None], **environment: str) -> Iterator[int]:
    """A tree of five processes whose root was put into its group; the root's pid."""
    process = subprocess.Popen(
        [sys.executable, "-c", TREE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        start_new_session=True, env={**os.environ, **environment},
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    try:
        root = int(process.stdout.readline())
        join(root)
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        yield root
    finally:
        for pid in below(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        process.stdin.close()
        process.stdout.close()


def below(root: int) -> set[int]:
    """A process and all its descendants, by the parents in /proc."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                rest = (folder / "stat").read_text().rpartition(")")[2].split()
                parents[int(folder.name)] = int(rest[1])
    found = {root}
    while more := {pid for pid, ppid in parents.items() if ppid in found} - found:
        found |= more
    return found


def discovery_of(job: str, node: str) -> Discovery:
    identity = JobIdentity("c", job, 0, "root", 0)
    return Discovery(
        SamplerSpec(job=identity, node=node, mode="slurm", spool="/s", ring_dir="/nowhere")
    )


def pids(discovery: Discovery) -> set[int]:
    return {member.pid for member in discovery.members()}


@pytest.fixture(params=["v1", "v2"])
def groups(request: pytest.FixtureRequest) -> Iterator[SlurmGroups]:
    version: Version = request.param
    if reason := groups_missing(version):
        pytest.skip(reason)
    with SlurmGroups(version) as made:
        yield made


def test_two_jobs_are_never_mixed_and_nothing_of_either_is_missed(groups: SlurmGroups) -> None:
    for job in ("71", "72"):
        groups.make(job)
    # The second job's processes even say that they are the first one's.
    lies = {"SLURM_JOB_ID": "71", "SLURM_PROCID": "0", "SLURMD_NODENAME": groups.node}
    one, two = discovery_of("71", groups.node), discovery_of("72", groups.node)
    with (
        tree(lambda pid: groups.put("71", pid)) as first,
        tree(lambda pid: groups.put("72", pid), **lies) as second,
    ):
        for _ in range(5):
            one.refresh({})
            two.refresh({})
            time.sleep(0.02)
        assert pids(one) == below(first) and len(pids(one)) == 5
        assert pids(two) == below(second) and len(pids(two)) == 5
        assert one.facts()["found_by"].keys() <= {"cgroup", "parent"}
        assert one.facts()["hidden"] == 0


def test_counters_and_limit_of_a_job_whose_controllers_end_at_different_depths() -> None:
    if reason := groups_missing("v1"):
        pytest.skip(reason)
    with SlurmGroups("v1") as groups:
        groups.make("73")
        groups.limit_memory("73", 256 << 20)
        discovery = discovery_of("73", groups.node)
        with tree(lambda pid: groups.put("73", pid)):
            discovery.refresh({})
            collector = Cgroup()
            context = Context(
                Path("/proc"), Path("/sys"), tuple, discovery.cgroup_paths, tuple,
                lambda pid: ("none", None),
            )  # fmt: skip
            collector.open(context)
            rows_at(collector, 0)
            (row,) = rows_at(collector, 1)
            collector.close()
    assert row["path"] == f"/slurm_{groups.node}/uid_0/job_73"
    assert row["mem_limit_bytes"] == 256 << 20
    assert row["mem_current_bytes"] > 3 << 20
    assert row["read_bytes"] is None, "blkio is not split by job here"


def test_a_group_that_was_left_empty_is_watched_and_its_time_is_told(groups: SlurmGroups) -> None:
    groups.make("74")
    discovery = discovery_of("74", groups.node)
    with tree(lambda pid: groups.put("74", pid)):
        for _ in range(5):
            discovery.refresh({})
            time.sleep(0.02)
        assert len(pids(discovery)) == 5
    for _ in range(40):
        discovery.refresh({})
        time.sleep(0.02)
    assert pids(discovery) == set()
    assert len(discovery.cgroup_paths()) == 1
    assert 0.1 < discovery.facts()["group_empty_s"] < 30
