"""Which job a process belongs to and by what that is known: over made-up processes and groups."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_io.sampler.discovery import Discovery
from tests.sampler.made_up_processes import MadeUpProcesses, made_up_spec, pids_of

CASES = Path(__file__).parents[1] / "fixtures" / "host" / "cases"
OF_12 = {"SLURM_JOB_ID": "12", "SLURM_PROCID": "3", "SLURMD_NODENAME": "node1"}
SCOPE = "system.slice/slurmstepd.scope"

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="the made-up slurmstepd must be owned by root"
)


class Node:
    """A made-up node with control groups v2."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.processes = MadeUpProcesses(root / "proc")
        self.cgroups = root / "sys/fs/cgroup"
        self.cgroups.mkdir(parents=True)
        (self.cgroups / "cgroup.controllers").write_text("cpu memory\n")

    def group(self, path: str, *pids: int) -> str:
        """A group with its processes; the line their /proc/PID/cgroup has."""
        folder = self.cgroups / path.strip("/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
        return f"0::/{path.strip('/')}\n"

    def discovery(self, **fields: Any) -> Discovery:
        return Discovery(made_up_spec(self.root, **fields))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def looked(discovery: Discovery, times: int = 1) -> list[int]:
    for _ in range(times):
        discovery.refresh({})
    return pids_of(discovery)


def test_two_jobs_of_one_user_on_one_node_are_never_mixed(node: Node) -> None:
    for job, first in (("12", 100), ("13", 200)):
        line = node.group(f"{SCOPE}/job_{job}/step_0/user/task_0", first, first + 1)
        node.processes.add(first, cgroup=line, environ={**OF_12, "SLURM_JOB_ID": job})
        # What the other job exports about itself proves nothing: srun --jobid, a script's variable.
        node.processes.add(first + 1, ppid=first, cgroup=line, environ=OF_12)
    assert looked(node.discovery(job="12"), 4) == [100, 101]
    assert looked(node.discovery(job="13"), 4) == [200, 201]


def test_a_child_that_was_put_into_another_jobs_group_is_not_kept(node: Node) -> None:
    line = node.group(f"{SCOPE}/job_12/step_0/user/task_0", 100, 101)
    node.processes.add(100, cgroup=line, environ=OF_12)
    node.processes.add(101, ppid=100, cgroup=line, environ=OF_12)
    discovery = node.discovery()
    assert looked(discovery) == [100, 101]
    node.group(f"{SCOPE}/job_12/step_0/user/task_0", 100)
    other = node.group(f"{SCOPE}/job_13/step_extern/user/task_special", 101, 102)
    node.processes.add(101, ppid=100, cgroup=other, environ=OF_12)
    node.processes.add(102, ppid=100, cgroup=other, environ=OF_12)
    assert looked(discovery, 25) == [100]


def test_a_child_born_between_two_readings_is_a_member(node: Node) -> None:
    line = node.group(f"{SCOPE}/job_12/step_0/user/task_0", 100)
    node.processes.add(100, cgroup=line, environ=OF_12)
    node.processes.add(101, ppid=100, cgroup=line)
    assert looked(node.discovery()) == [100, 101]


def test_case_d06_how_the_job_of_each_process_was_decided(node: Node) -> None:
    (folder,) = CASES.glob("D06-*")
    answer = json.loads((folder / "expected.json").read_text())["answer"]
    lines = {name: (folder / name).read_text() for name in answer}
    path = lines["in_job.txt"].strip().removeprefix("0::")
    node.group(path, 100)
    node.processes.add(100, cgroup=lines["in_job.txt"], environ=OF_12)
    docker = lines["docker_in_job.txt"]
    # A daemon's child in the container: its environment names the job; its own child has none.
    node.processes.add(300, ppid=250, cgroup=docker, environ=OF_12)
    node.processes.add(301, ppid=300, cgroup=docker)
    # Another container's: neither the first job of the pod nor any other.
    node.processes.add(400, ppid=250, cgroup=docker)
    node.processes.add(401, ppid=250, cgroup=docker, environ={**OF_12, "SLURM_JOB_ID": "13"})
    discovery = node.discovery()
    assert looked(discovery, 3) == [100, 300, 301]
    assert discovery.facts()["found_by"] == {"cgroup": 1, "outside": 1, "parent": 1}


def test_of_two_pods_with_a_job_of_the_same_number_the_samplers_own_is_meant(node: Node) -> None:
    for pod, pid in (("a", 100), ("b", 200)):
        place = f"kubepods.slice/pod{pod}.slice/cri.scope/{SCOPE}/job_12/step_0/user/task_0"
        node.processes.add(pid, cgroup=node.group(place, pid), environ=OF_12)
    own = node.root / "proc/self"
    own.mkdir()
    (own / "cgroup").write_text("0::/kubepods.slice/podb.slice/cri.scope/system.slice/slurmd\n")
    assert looked(node.discovery(), 10) == [200]


@pytest.mark.parametrize("scope", ["slurmstepd.scope", "node1_slurmstepd.scope"])
@pytest.mark.parametrize("slice_", ["system.slice", "site.slice/slurm.slice"])
def test_the_sluid_of_26_05_names_the_group(node: Node, scope: str, slice_: str) -> None:
    sluid, others = "s5K1KKYAYG5D00", "s5K1KKYAYG5D01"
    for name, pid in ((sluid, 100), (others, 200)):
        line = node.group(f"{slice_}/{scope}/{name}/step_0/user/task_0", pid)
        node.processes.add(pid, cgroup=line, environ=OF_12)
    discovery = node.discovery(sluid=sluid)
    assert looked(discovery, 3) == [100]
    assert discovery.cgroup_paths() == [f"/{slice_}/{scope}/{sluid}"]


def test_a_sluid_nobody_told_is_learnt_from_what_scontrol_lists(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = node.group(f"{SCOPE}/s5K1KKYAYG5D00/step_0/user/task_0", 100, 101)
    node.processes.add(100, cgroup=line)
    node.processes.add(101, ppid=1, cgroup=line)
    other = node.group(f"{SCOPE}/s5K1KKYAYG5D01/step_0/user/task_0", 200)
    node.processes.add(200, cgroup=other, environ=OF_12)
    discovery = node.discovery()
    answer_of_scontrol(discovery, monkeypatch, [100])
    assert looked(discovery, 3) == [100, 101]
    assert discovery.cgroup_paths() == [f"/{SCOPE}/s5K1KKYAYG5D00"]


def answer_of_scontrol(
    discovery: Discovery, monkeypatch: pytest.MonkeyPatch, pids: list[int]
) -> None:
    """As if a child had answered just now."""
    listed = discovery._listed
    monkeypatch.setattr(listed, "pids", frozenset(pids))
    monkeypatch.setattr(listed, "_born_before_ticks", 1e12)
    monkeypatch.setattr(listed, "refresh", lambda now_s: None)


def test_without_control_groups_scontrol_names_what_has_no_environment(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.processes.add(100, environ=OF_12)
    node.processes.add(101, ppid=1)  # env -i python
    node.processes.add(102, ppid=1)
    discovery = node.discovery()
    assert looked(discovery) == [100]
    answer_of_scontrol(discovery, monkeypatch, [100, 101])
    assert looked(discovery) == [100, 101]
    assert discovery.facts()["found_by"] == {"environ": 1, "listpids": 1}


def test_a_pid_listed_for_the_job_and_reused_since_is_nobodys(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    discovery = node.discovery()
    answer_of_scontrol(discovery, monkeypatch, [100])
    monkeypatch.setattr(discovery._listed, "_born_before_ticks", 500.0)
    node.processes.add(100, starttime=501)
    assert looked(discovery, 3) == []


@pytest.mark.root
@needs_root
def test_an_inherited_environment_below_another_jobs_slurmstepd_is_not_believed(
    node: Node,
) -> None:
    title = "slurmstepd: [13.0]\0"
    node.processes.add(50, comm="slurmstepd", cmdline=title)
    node.processes.add(51, ppid=50, comm="bash", environ=OF_12)
    node.processes.add(52, ppid=51, comm="python", environ=OF_12)
    node.processes.add(60, comm="slurmstepd", cmdline="slurmstepd: [12.batch]\0")
    node.processes.add(61, ppid=60, comm="bash", environ=OF_12)
    assert looked(node.discovery(), 3) == [61]


@pytest.mark.root
@needs_root
def test_slurms_own_processes_are_no_part_of_roots_job(node: Node) -> None:
    line = node.group(f"{SCOPE}/job_12/step_0/slurm", 50)
    node.processes.add(50, comm="slurmstepd", cgroup=line)
    task = node.group(f"{SCOPE}/job_12/step_0/user/task_0", 100)
    node.processes.add(100, cgroup=task)
    assert looked(node.discovery(), 2) == [100]


def test_another_process_under_a_members_pid_is_judged_by_itself(node: Node) -> None:
    line = node.group(f"{SCOPE}/job_12/step_0/user/task_0", 100)
    node.processes.add(100, cgroup=line, starttime=7)
    discovery = node.discovery()
    assert looked(discovery) == [100]
    node.group(f"{SCOPE}/job_12/step_0/user/task_0")
    node.processes.add(100, starttime=8, comm="stranger")
    assert looked(discovery, 25) == []


def test_a_strangers_pid_that_a_task_got_is_a_member_with_its_own_start_time(node: Node) -> None:
    node.processes.add(100, starttime=7, comm="stranger")
    for pid in range(300, 340):
        node.processes.add(pid)
    discovery = node.discovery()
    assert looked(discovery) == []
    line = node.group(f"{SCOPE}/job_12/step_0/user/task_0", 100)
    node.processes.add(100, cgroup=line, starttime=8)
    assert looked(discovery, 2) == [100]
    assert [member.starttime for member in discovery.members()] == [8]


def test_the_root_of_a_run_is_one_process_not_whoever_gets_its_pid(node: Node) -> None:
    node.processes.add(100, starttime=7)
    node.processes.add(101, ppid=100)
    discovery = node.discovery(mode="user", root_pid=100)
    assert looked(discovery) == [100, 101]
    node.processes.add(100, starttime=900, comm="stranger")
    assert looked(discovery, 25) == [101]


def test_two_containers_processes_of_one_pid_and_age_are_told_apart_by_their_namespace(
    node: Node,
) -> None:
    line = node.group(f"{SCOPE}/job_12/step_0/user/task_0", 100, 200)
    for pid, pid_ns in ((100, 4026532001), (200, 4026532002)):
        node.processes.add(pid, cgroup=line, inner_pids=(7,), pid_ns=pid_ns, starttime=55)
    discovery = node.discovery()
    looked(discovery)
    found = [discovery.find_pid(7, 55, pid_ns) for pid_ns in (4026532001, 4026532002, 4026532003)]
    assert found == [100, 200, None]


def hide(node: Node) -> None:
    node.processes.remove(101)


def refuse(node: Node) -> None:
    """As hidepid=1 does: the folder is there, its files are closed."""
    (node.root / "proc/101/stat").unlink()


@pytest.mark.parametrize("how", [hide, refuse])
def test_processes_of_the_group_that_cannot_be_seen_are_counted(
    node: Node, how: Callable[[Node], None]
) -> None:
    line = node.group(f"{SCOPE}/job_12/step_0/user/task_0", 100, 101)
    node.processes.add(100, cgroup=line)
    node.processes.add(101, cgroup=line)
    how(node)
    discovery = node.discovery()
    assert looked(discovery, 4) == [100]
    assert discovery.facts()["hidden"] == 1


def test_a_process_that_ends_between_two_readings_is_not_called_hidden(node: Node) -> None:
    discovery = node.discovery()
    for pid in range(100, 110):
        node.group(f"{SCOPE}/job_12/step_0/user/task_0", pid)
        discovery.refresh({})
    assert discovery.facts()["hidden"] == 0


def test_processes_without_a_pid_in_our_namespace_are_counted(node: Node) -> None:
    node.processes.add(100, cgroup=node.group(f"{SCOPE}/job_12/step_0/user/task_0", 100, 0, 0))
    discovery = node.discovery()
    assert looked(discovery, 2) == [100]
    assert discovery.facts()["hidden"] == 2


def test_zombies_that_nobody_collects_are_counted_once(node: Node) -> None:
    line = node.group(f"{SCOPE}/job_12/step_0/user/task_0", 100, 101, 102)
    for pid in (100, 101, 102):
        node.processes.add(pid, ppid=1 if pid == 100 else 100, cgroup=line)
    node.processes.add(500, state="Z")  # of nobody here
    discovery = node.discovery()
    looked(discovery)
    node.group(f"{SCOPE}/job_12/step_0/user/task_0", 100)
    node.processes.add(101, ppid=100, state="Z")
    node.processes.add(102, ppid=100, state="Z")
    for _ in range(2):
        node.processes.add(600)
        discovery.refresh({})
    node.processes.remove(102)  # collected within two looks
    for _ in range(25):
        node.processes.add(600)
        discovery.refresh({})
    assert pids_of(discovery) == [100]
    assert discovery.facts()["zombies"] in (1, 2)  # the order of the looks decides about the second
