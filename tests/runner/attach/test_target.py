"""Which processes can be attached to, and what is said of the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.errors import HostError, UsageError
from slurm_io.runner.attach.place import identity_of, node_of
from slurm_io.runner.attach.target import find_target, own_ancestors, yama_notice
from tests.sampler.ring_maker import starttime_of

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        ["sleep", "60"], env={"SLURM_JOB_ID": "77", "A": "x=y"}, cwd="/usr", start_new_session=True
    )
    # Popen returns when its pipe closes in exec, a moment before the kernel has the environment.
    while not Path(f"/proc/{process.pid}/environ").read_bytes():
        time.sleep(0.001)
    yield process
    process.kill()
    process.wait()


def test_what_a_process_says_of_itself_is_read(sleeper: subprocess.Popen[bytes]) -> None:
    target = find_target(sleeper.pid)
    assert (target.pid, target.starttime) == (sleeper.pid, starttime_of(sleeper.pid))
    assert (target.uid, target.comm, target.work_dir) == (os.geteuid(), "sleep", "/usr")
    assert dict(target.environ) == {"SLURM_JOB_ID": "77", "A": "x=y"}
    assert target.inner_pid is None


def test_a_process_that_is_not_there_is_told_with_the_node(
    sleeper: subprocess.Popen[bytes],
) -> None:
    sleeper.kill()
    sleeper.wait()
    with pytest.raises(HostError, match=f"no process {sleeper.pid} on this node"):
        find_target(sleeper.pid)


def test_one_that_has_ended_and_was_not_waited_for(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    while b") Z " not in Path(f"/proc/{sleeper.pid}/stat").read_bytes():
        time.sleep(0.01)
    with pytest.raises(HostError, match="has ended: only its exit code is left"):
        find_target(sleeper.pid)


def test_this_command_and_all_above_it_are_refused() -> None:
    above = own_ancestors()
    assert {1, os.getpid(), os.getppid()} <= above
    for pid in (os.getpid(), os.getppid(), 1):
        with pytest.raises(UsageError, match="it would watch itself"):
            find_target(pid)


def test_a_thread_is_told_which_process_it_belongs_to() -> None:
    script = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()"
    process = subprocess.Popen([sys.executable, "-c", script])
    try:
        tasks = Path(f"/proc/{process.pid}/task")
        while len(list(tasks.iterdir())) < 2:
            time.sleep(0.02)
        thread = max(int(path.name) for path in tasks.iterdir())
        with pytest.raises(UsageError, match=f"thread of process {process.pid}: give --pid"):
            find_target(thread)
    finally:
        process.kill()
        process.wait()
    assert threading.active_count() >= 1


def test_a_kernel_thread_is_refused() -> None:
    kthreadd = Path("/proc/2/stat")
    if not kthreadd.exists() or b"(kthreadd)" not in kthreadd.read_bytes():
        pytest.skip("no kernel threads to be seen (a pid namespace of its own)")
    with pytest.raises(UsageError, match=r"process 2 \(kthreadd\) is a kernel thread"):
        find_target(2)


def ask_as_nobody(pid: int) -> str:
    """What another user is told."""
    script = (
        "import sys\n"
        "from slurm_io.errors import SlurmIoError\n"
        "from slurm_io.runner.attach.target import find_target\n"
        "try:\n    print('allowed', find_target(int(sys.argv[1])).comm)\n"
        "except SlurmIoError as error:\n    print(error)\n"
    )
    from tests.labs.user_python import find_user_python

    python = find_user_python("nobody", "slurm_io.runner.attach.target")
    if python is None:
        pytest.skip("nobody can start no Python that imports slurm_io")
    done = subprocess.run(
        [python.path, "-c", script, str(pid)],
        env={"PYTHONPATH": python.packages, "PATH": "/usr/bin:/bin"},
        cwd="/", user=NOBODY, group=NOBODY, extra_groups=[],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stdout.strip()


@needs_root
@pytest.mark.root
def test_another_users_process_is_refused_with_what_is_needed(
    sleeper: subprocess.Popen[bytes],
) -> None:
    said = ask_as_nobody(sleeper.pid)
    assert said == f"process {sleeper.pid} (sleep) belongs to root: attach as root"


@needs_root
@pytest.mark.root
def test_an_own_process_that_the_kernel_closes_is_refused() -> None:
    """A program that made itself undumpable: the same user, and still nothing to be seen."""
    script = (
        "import ctypes, time\n"
        "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"  # PR_SET_DUMPABLE
        "print('closed', flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [_python_of_nobody(), "-c", script], cwd="/", user=NOBODY, group=NOBODY, extra_groups=[],
        env={}, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        process.stdout.readline()
        said = ask_as_nobody(process.pid)
    finally:
        process.kill()
        process.communicate()
    assert "is closed to you by the kernel" in said
    assert said.endswith("attach as root")


def _python_of_nobody() -> str:
    from tests.labs.user_python import find_user_python

    found = find_user_python("nobody")
    if found is None:
        pytest.skip("nobody can start no Python")
    return found.path


@needs_root
@pytest.mark.root
def test_a_number_from_inside_a_container_leads_to_the_one_outside() -> None:
    holder = subprocess.Popen(
        ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", "sleep 60 & wait"],
        start_new_session=True,
    )  # fmt: skip
    try:
        outside, inner = _in_container(holder.pid)
        target = find_target(outside)
        assert target.inner_pid == inner
        # 2 is the only process that has this number in there, unless it is one out here too.
        if not Path(f"/proc/{inner}").exists():
            with pytest.raises(HostError, match=f"inside a container is {outside} here"):
                find_target(inner)
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        holder.wait()


def _in_container(holder: int) -> tuple[int, int]:
    """(pid here, pid inside) of the sleep below a namespace's holder."""
    for _ in range(200):
        for path in Path("/proc").glob("[0-9]*/status"):
            text = path.read_text() if path.exists() else ""
            numbers = [line.split()[1:] for line in text.splitlines() if line.startswith("NSpid:")]
            is_inside = "Name:\tsleep" in text and numbers and len(numbers[0]) > 1
            if is_inside and _descends_from(int(path.parent.name), holder):
                return int(numbers[0][0]), int(numbers[0][-1])
        time.sleep(0.05)
    raise AssertionError("no sleep in a namespace")


def _descends_from(pid: int, above: int) -> bool:
    while pid > 1:
        if pid == above:
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return False


def test_words_of_the_environment_that_could_do_harm_are_not_taken_over(
    sleeper: subprocess.Popen[bytes],
) -> None:
    hostile = {
        "SLURM_JOB_ID": "12/../../etc",
        "SLURM_CLUSTER_NAME": "../x",
        "SLURM_JOB_NAME": "a\x1b[2Jb",
        "SLURM_RESTART_COUNT": "9" * 5000,
        "SLURMD_NODENAME": "../node",
        "SLURM_JOB_PARTITION": "gpu",
    }
    target = replace(find_target(sleeper.pid), environ=hostile, uid=7, user="seven")
    job = identity_of(target)
    assert job.job.isalnum()
    assert (job.cluster, job.name, job.restart, job.partition) == ("local", None, 0, "gpu")
    assert (job.uid, job.user, job.work_dir) == (7, "seven", "/usr")
    assert node_of(target, "here") == "here"
    named = replace(target, environ={"SLURM_JOB_ID": "12", "SLURMD_NODENAME": "n-1.x"})
    assert (identity_of(named).job, node_of(named, "here")) == ("12", "n-1.x")


@pytest.mark.parametrize(
    ("scope", "told"), [("0", None), ("1", "root and to ancestors"), ("3", "to nobody")]
)
def test_yamas_modes_are_told_before_anything_is_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str, told: str | None
) -> None:
    file = tmp_path / "sys/kernel/yama/ptrace_scope"
    file.parent.mkdir(parents=True)
    file.write_text(f"{scope}\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    notice = yama_notice(tmp_path)
    assert notice is None if told is None else told in str(notice)
