"""Workers of every start method, pid namespaces and reused pids, with real processes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.model import JobIdentity, SamplerSpec
from slurm_io.sampler.discovery import Discovery
from slurm_io.sampler.rings import Rings
from tests.sampler.packed_rows import drained_steps
from tests.sampler.ring_maker import starttime_of

ATTACH = Path(__file__).parents[2] / "slurm_io" / "hook" / "attach"
REPOSITORY = Path(__file__).parents[2]

WORKERS = """
import multiprocessing, sys, time

def work():
    time.sleep(300)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    workers = [context.Process(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    print(*(worker.pid for worker in workers), flush=True)
    time.sleep(300)
"""


@contextlib.contextmanager
def running(*command: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def discovery_of(root_pid: int, ring_dir: str = "/nowhere") -> Discovery:
    job = JobIdentity("local", "77", 0, "u", os.getuid())
    return Discovery(
        SamplerSpec(
            job=job, node="here", mode="user", spool="/s", ring_dir=ring_dir, root_pid=root_pid
        )
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_each_start_method_are_told_from_their_helpers(
    tmp_path: Path, method: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(WORKERS)
    with running(sys.executable, str(script), method) as rank:
        assert rank.stdout is not None
        workers = {int(word) for word in rank.stdout.readline().split()}
        discovery = discovery_of(rank.pid)
        for _ in range(25):
            discovery.refresh({rank.pid: 5})
        members = {member.pid: member for member in discovery.members()}
    assert {pid for pid, member in members.items() if member.role == "worker"} == workers
    assert {members[pid].rank_pid for pid in workers} == {rank.pid}
    assert {members[pid].rank for pid in workers} == {5}
    # The tracker and the server help the rank and are not counted.
    others = [member for member in members.values() if member.role == "other"]
    assert len(others) == {"fork": 0, "spawn": 1, "forkserver": 2}[method]
    assert {member.helper_of for member in others} <= {rank.pid}


RANK = """
import os, sys
sys.path.insert(0, sys.argv[1])
import slurm_io_hook, time
print(os.getpid(), flush=True)
for _ in slurm_io_hook.watch(range(100000)):
    time.sleep(0.01)
"""


@pytest.mark.root
def test_a_rank_in_a_container_of_its_own_pids_is_known_by_its_ring(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare to make a pid namespace")
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", RANK]
    with running(*command, str(ATTACH), SLURM_IO_RING_DIR=str(tmp_path)) as container:
        assert container.stdout is not None
        inner_pid = int(container.stdout.readline())
        discovery = discovery_of(container.pid, str(tmp_path))
        rings = Rings(tmp_path, os.getuid(), 0, discovery.find_pid)
        for _ in range(300):
            discovery.refresh(rings.ranks())
            steps = drained_steps(rings)
            if steps and rings.ranks():
                break
            time.sleep(0.01)
        (pid,) = rings.ranks()
        (name,) = (path.name for path in tmp_path.iterdir())
        space = str(Path(f"/proc/{pid}/ns/pid").readlink())[len("pid:[") : -1]
        starttime = starttime_of(pid)
        rings.close()
    assert inner_pid == 1 and pid != 1
    assert name == f"ring-1-{starttime}.{space}"


REUSE = """
import json, os, subprocess, sys, time
from slurm_io.model import JobIdentity, SamplerSpec
from slurm_io.sampler.discovery import Discovery

PID = 4000
OF_JOB = {"SLURM_JOB_ID": "12", "SLURM_PROCID": "0", "SLURMD_NODENAME": "here"}

def start(environment):
    # The shell forks right after it has set the number, and nobody else forks in this namespace.
    script = f"echo {PID - 1} > /proc/sys/kernel/ns_last_pid; sleep 300 & wait"
    shell = subprocess.Popen(["sh", "-c", script], env={**os.environ, **environment})
    while not os.path.exists(f"/proc/{PID}"):
        time.sleep(0.01)
    time.sleep(0.1)
    return shell

def end(shell):
    os.kill(PID, 9)
    shell.wait()
    time.sleep(0.05)  # a clock tick: the next one has another start time

def seen(discovery):
    for _ in range(25):
        discovery.refresh({})
    return [(member.pid, member.starttime) for member in discovery.members()]

def age():
    return int(open(f"/proc/{PID}/stat").read().rpartition(")")[2].split()[19])

job = JobIdentity("c", "12", 0, "root", 0)
spec = SamplerSpec(job=job, node="here", mode="slurm", spool="/s", ring_dir="/r", sys_root="/none")
discovery = Discovery(spec)
found = []
for environment in (OF_JOB, {"SLURM_JOB_ID": "13"}, OF_JOB, OF_JOB):
    shell = start(environment)
    found.append((age(), seen(discovery)))
    end(shell)
print(json.dumps(found))
"""


@pytest.mark.root
def test_a_pid_given_out_again_at_once_is_another_process() -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare to make a pid namespace")
    if not Path("/proc/sys/kernel/ns_last_pid").exists():
        pytest.skip("this kernel lets nobody choose the next pid (CONFIG_CHECKPOINT_RESTORE)")
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", REUSE]
    with running(*command, PYTHONPATH=str(REPOSITORY)) as container:
        out, _ = container.communicate(timeout=60)
    ages, members = zip(*json.loads(out), strict=True)
    assert len(set(ages)) == 4
    mine = [[[4000, age]] for age in ages]
    # The second owner of the pid is of another job; the fourth is of ours again.
    assert list(members) == [mine[0], [], mine[2], mine[3]]
