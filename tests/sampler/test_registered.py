"""The other tasks of an srun step: members because they registered, whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from slurm_io.host.same_process import starttime_of
from slurm_io.model import JobIdentity, SamplerSpec
from slurm_io.sampler.discovery import Discovery
from slurm_io.sampler.registered import registered_tasks
from tests.labs.cluster_parts import wait_until


def discovery(rings: Path, root_pid: int) -> Discovery:
    job = JobIdentity("c", "7", 0, "u", os.getuid())
    return Discovery(
        SamplerSpec(
            job=job, node="n1", mode="user", spool="/s", ring_dir=str(rings), root_pid=root_pid
        )
    )


def comms_below(pid: int) -> list[str]:
    """Names of a process's children: of one just forked, still its parent's."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [Path(f"/proc/{child}/comm").read_text().strip() for child in children]


def test_a_registered_task_is_a_member_with_all_below_it(tmp_path: Path) -> None:
    root = subprocess.Popen(["sleep", "60"])
    task = subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True)
    try:
        found = discovery(tmp_path, root.pid)
        for _ in range(5):  # old acquaintances by now
            found.refresh({})
        assert [member.comm for member in found.members()] == ["sleep"]
        wait_until(lambda: "sleep" in comms_below(task.pid), 10, "the task's child is a sleep")
        (tmp_path / f"task-{task.pid}-{starttime_of(task.pid)}").touch()
        found.refresh({})
        assert sorted(member.comm for member in found.members()) == ["sh", "sleep", "sleep"]
        assert {member.role for member in found.members()} == {"other"}
    finally:
        os.killpg(task.pid, signal.SIGKILL)
        root.kill()
        for process in (root, task):
            process.wait()


def test_the_next_process_with_that_number_is_not(tmp_path: Path) -> None:
    root, stranger = (subprocess.Popen(["sleep", "60"]) for _ in range(2))
    try:
        born = starttime_of(stranger.pid)
        assert born is not None
        (tmp_path / f"task-{stranger.pid}-{born - 1}").touch()
        found = discovery(tmp_path, root.pid)
        found.refresh({})
        assert [member.pid for member in found.members()] == [root.pid]
    finally:
        for process in (root, stranger):
            process.kill()
            process.wait()


def test_names_that_say_nothing(tmp_path: Path) -> None:
    for name in ("task-", "task-1", "task-0-1", "task-1-x", "ring-1-2", "task-1-2-3"):
        (tmp_path / name).touch()
    assert registered_tasks(str(tmp_path)) == []
    assert registered_tasks(str(tmp_path / "absent")) == []
