"""Finding the job's processes among real ones."""

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

from slurm_io.model import JobIdentity, Mode, SamplerSpec
from slurm_io.sampler.discovery import Discovery
from tests.sampler.ring_maker import starttime_of


def spec(mode: Mode, root_pid: int | None = None, **fields: object) -> SamplerSpec:
    job = JobIdentity(
        "c", str(fields.pop("job", "4242")), 0, "u", int(str(fields.pop("uid", os.getuid())))
    )
    return SamplerSpec(
        job=job, node="node1", mode=mode, spool="/s", root_pid=root_pid, sys_root="/nowhere",
        ring_dir=str(fields.pop("ring_dir", "/nowhere/rings")),
    )  # fmt: skip


@contextlib.contextmanager
def started(script: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A shell script in a session of its own; everything in it dies at the end."""
    process = subprocess.Popen(
        ["sh", "-c", script], start_new_session=True, env={**os.environ, **environment}
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(discovery: Discovery, holds: Callable[[], bool]) -> None:
    for _ in range(300):
        discovery.refresh({})
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError([(m.pid, m.comm, m.role) for m in discovery.members()])


def comms(discovery: Discovery) -> list[str]:
    return sorted(member.comm for member in discovery.members())


def test_user_mode_finds_the_root_and_all_below() -> None:
    with started("sh -c 'sh -c \"sleep 61 & wait\" & wait' & wait") as root:
        discovery = Discovery(spec("user", root.pid))
        until(discovery, lambda: comms(discovery) == ["sh", "sh", "sh", "sleep"])
        assert os.getpid() not in {member.pid for member in discovery.members()}
        assert discovery.processes_seen >= 4


def test_a_member_that_lost_its_parents_stays() -> None:
    with started("sh -c 'sleep 62 & exec sleep 0.3'; exec sleep 63") as root:
        discovery = Discovery(spec("user", root.pid))
        until(discovery, lambda: comms(discovery).count("sleep") == 2)
        until(discovery, lambda: comms(discovery) == ["sleep", "sleep"])
        time.sleep(0.3)
        for _ in range(25):
            discovery.refresh({})
        assert comms(discovery) == ["sleep", "sleep"]


def test_an_orphan_nobody_saw_being_born_is_told_by_its_ring_folder(tmp_path: Path) -> None:
    script = "setsid sleep 64 & echo $! > $0"
    with started(
        f"sh -c '{script}' {tmp_path}/pid; exec sleep 65", SLURM_IO_RING_DIR="/r/1"
    ) as root:
        until_file(tmp_path / "pid")
        discovery = Discovery(spec("user", root.pid, ring_dir="/r/1"))
        try:
            until(discovery, lambda: comms(discovery) == ["sleep", "sleep"])
        finally:
            for member in discovery.members():
                os.kill(member.pid, signal.SIGKILL)


def until_file(path: Path) -> None:
    for _ in range(300):
        if path.exists() and path.read_text().strip():
            return
        time.sleep(0.01)
    raise AssertionError(path)


def test_the_end_of_the_job_is_seen() -> None:
    with started("exec sleep 66") as root:
        discovery = Discovery(spec("user", root.pid))
        until(discovery, lambda: len(discovery.members()) == 1)
        root.kill()  # a zombie until somebody waits for it
        until(discovery, lambda: not discovery.members())


SLURM = {"SLURM_JOB_ID": "4242", "SLURM_PROCID": "0", "SLURMD_NODENAME": "node1"}


def test_slurm_mode_without_cgroup_reads_environments() -> None:
    # The sampler's own children (here: the shells) are never taken for the job.
    with started("sleep 67 & wait", **SLURM) as task, started("sleep 68 & wait"):
        discovery = Discovery(spec("slurm"))
        sleeps = [("sleep", task.pid)]
        until(discovery, lambda: [(m.comm, m.ppid) for m in discovery.members()] == sleeps)
        assert discovery.facts()["found_by"]["environ"] >= 1


@pytest.mark.parametrize(
    "environment",
    [
        {**SLURM, "SLURM_JOB_ID": "42420"},
        {**SLURM, "SLURMD_NODENAME": "node2"},
        {"SLURM_JOB_ID": "4242", "SLURMD_NODENAME": "node1"},  # a child of the prolog
    ],
)
def test_other_jobs_nodes_and_the_prolog_are_not_the_job(environment: dict[str, str]) -> None:
    with started("sleep 69 & wait", **environment):
        discovery = Discovery(spec("slurm"))
        for _ in range(5):
            discovery.refresh({})
            time.sleep(0.02)
        assert discovery.members() == []


def test_a_forged_environment_of_another_user_is_not_believed() -> None:
    with started("sleep 70 & wait", **SLURM):
        discovery = Discovery(spec("slurm", uid=os.getuid() + 12345))
        for _ in range(4):
            discovery.refresh({})
        assert discovery.members() == []


def test_the_list_is_the_same_object_while_nothing_changes() -> None:
    with started("exec sleep 71") as root:
        discovery = Discovery(spec("user", root.pid))
        until(discovery, lambda: comms(discovery) == ["sleep"])
        before = discovery.members()
        for _ in range(15):
            discovery.refresh({})
        assert discovery.members() is before


def test_a_pid_is_found_with_its_own_starttime_only() -> None:
    with started("exec sleep 72") as root:
        discovery = Discovery(spec("user", root.pid))
        until(discovery, lambda: bool(discovery.members()))
        starttime = starttime_of(root.pid)
        assert discovery.find_pid(root.pid, starttime) == root.pid
        assert discovery.find_pid(root.pid, starttime + 1) is None
        assert discovery.find_pid(2**22 + 1, starttime) is None


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a pid namespace")
def test_a_process_in_a_pid_namespace_is_found_by_its_inner_pid() -> None:
    command = ["unshare", "--pid", "--fork", "sh", "-c", "exec sleep 73"]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        discovery = Discovery(spec("user", process.pid))
        until(discovery, lambda: "sleep" in comms(discovery))
        inner = next(m for m in discovery.members() if m.comm == "sleep")
        assert discovery.find_pid(1, inner.starttime) == inner.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_rank_and_workers_are_told_apart_in_a_real_tree() -> None:
    program = "import os, time\nif os.fork() == 0: os.system('sleep 74')\ntime.sleep(75)"
    process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    try:
        discovery = Discovery(spec("user", process.pid))
        until(discovery, lambda: "sleep" in comms(discovery))
        discovery.refresh({process.pid: 6})
        roles = {m.comm: (m.role, m.rank, m.helper_of is not None) for m in discovery.members()}
        worker = next(m for m in discovery.members() if m.role == "worker")
        assert worker.rank_pid == process.pid
        assert roles["sleep"] == ("other", 6, True)
        assert discovery.workers_seen == 1
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_process_with_a_ring_in_the_jobs_folder_is_a_member() -> None:
    with started("sleep 76 & wait") as shell:
        discovery = Discovery(spec("slurm"))
        discovery.refresh({})
        assert discovery.members() == []
        assert discovery.find_pid(shell.pid, starttime_of(shell.pid)) == shell.pid
        discovery.refresh({shell.pid: 1})
        assert {m.pid: m.role for m in discovery.members()}[shell.pid] == "rank"
        stranger = Discovery(spec("slurm", uid=os.getuid() + 12345))
        stranger.refresh({})
        assert stranger.find_pid(shell.pid, starttime_of(shell.pid)) is None
