"""/proc/PID/cgroup of real systems: which job, step and task; and finding the job's groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.host.cgroup_counters import CgroupSource
from slurm_io.host.cgroup_io import LowestDevices, blkio_bytes, io_stat_bytes
from slurm_io.host.cgroup_limits import memory_limit_bytes
from slurm_io.host.cgroups import job_path, parse_proc_cgroup, place_of_path, slurm_place
from slurm_io.host.job_cgroups import (
    Contents,
    WhichJob,
    contents_of,
    find_job_cgroups,
    resolve_cgroup,
)

FIXTURES = Path(__file__).parents[1] / "fixtures" / "host"
CASES = FIXTURES / "cases"
SLUID = "s5K1KKYAYG5D00"


def case(name: str) -> tuple[Path, dict[str, Any]]:
    (folder,) = CASES.glob(f"{name}-*")
    return folder, json.loads((folder / "expected.json").read_text())["answer"]


def write(root: Path, *files: str) -> None:
    for name in files:
        path = root / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


@pytest.mark.parametrize("name", ["D01", "D03"])
def test_v1_cases(name: str) -> None:
    folder, answer = case(name)
    cgroups = parse_proc_cgroup((folder / "proc_cgroup.txt").read_text())
    place = slurm_place(cgroups)
    assert place is not None
    assert cgroups.version == answer["cgroup_version"]
    assert (place.job_id, place.step, place.task, place.uid) == (
        answer["job_id"], answer["step"], answer["task"], answer["uid"],
    )  # fmt: skip
    for controller, path in answer.get("paths", {}).items():
        assert cgroups.v1_paths[controller] == path


def test_case_d01_counters_limit_and_no_block_io(tmp_path: Path) -> None:
    folder, answer = case("D01")
    for name, text in json.loads((folder / "tree.json").read_text()).items():
        path = tmp_path / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    path = parse_proc_cgroup((folder / "proc_cgroup.txt").read_text()).v1_paths["memory"]
    (group,) = resolve_cgroup(tmp_path, path)
    assert memory_limit_bytes(group) == answer["memory_limit_bytes"]
    source = CgroupSource(group, LowestDevices(tmp_path))
    counters = source.read()
    assert counters is not None
    assert counters.cpu_ns == answer["cpu_time_ns"]
    assert counters.mem_current_bytes == answer["memory_usage_bytes"]
    assert (counters.read_bytes, counters.write_bytes) == (None, None)
    assert "blkio" in source.missing()["io"]
    source.close()
    found = find_job_cgroups(tmp_path, WhichJob(str(answer["job_id"])))
    assert [(group.version, group.path) for group in found] == [
        (1, "/slurm/uid_10001/job_62238108")
    ]
    assert memory_limit_bytes(found[0]) == answer["memory_limit_bytes"]


def test_case_d03_swapped_controller_folder_is_found_by_either_name(tmp_path: Path) -> None:
    folder, answer = case("D03")
    write(tmp_path, f"cpu,cpuacct{answer['paths']['cpuacct']}/cpuacct.usage")
    path = parse_proc_cgroup((folder / "proc_cgroup.txt").read_text()).v1_paths["cpuacct"]
    (group,) = resolve_cgroup(tmp_path, path)
    assert set(group.folders) == {"cpu", "cpuacct"}


def test_case_d06_below_a_pod_and_beside_it() -> None:
    folder, answer = case("D06")
    places = {name: slurm_place(parse_proc_cgroup((folder / name).read_text())) for name in answer}
    inside = places["in_job.txt"]
    assert inside is not None
    assert (inside.job_id, inside.step, inside.task) == (12, "0", 3)
    assert places["docker_in_job.txt"] is None


def test_case_d06_the_job_is_found_below_the_pod(tmp_path: Path) -> None:
    folder, _ = case("D06")
    path = (folder / "in_job.txt").read_text().strip().removeprefix("0::")
    write(tmp_path, "cgroup.controllers", f"{path[1:]}/cgroup.procs")
    (found,) = find_job_cgroups(tmp_path, WhichJob("12", node_name="node1"))
    assert found.path == job_path(path)


@pytest.mark.parametrize(
    ("path", "job", "sluid", "step", "task"),
    [
        ("/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0", 7, None, "batch", 0),
        ("/system.slice/n1_slurmstepd.scope/job_7/step_extern/slurm", 7, None, "extern", None),
        ("/system.slice/slurmstepd.scope/job_7/step_3/user/task_special", 7, None, "3", None),
        (f"/s.slice/slurmstepd.scope/{SLUID}/step_0/user/task_5", None, SLUID, "0", 5),
        ("/slurm_n1/uid_5/job_9/step_0/task_2", 9, None, "0", 2),
        ("/slurm/uid_5/job_9", 9, None, None, None),
    ],
)
def test_paths_of_all_shapes(
    path: str, job: int | None, sluid: str | None, step: str | None, task: int | None
) -> None:
    place = place_of_path(path)
    assert place is not None
    assert (place.job_id, place.sluid, place.step, place.task) == (job, sluid, step, task)


@pytest.mark.parametrize(
    "path",
    ["/", "/user.slice/job_7", "/system.slice/slurmstepd.scope/system", "/slurm/uid_x/job_7",
     "/home/slurmstepd.scope2/job_1", "/system.slice/slurmstepd.scope/sABC"],
)  # fmt: skip
def test_paths_of_no_job(path: str) -> None:
    assert place_of_path(path) is None and job_path(path) is None


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    slurm_place(parse_proc_cgroup(text))


def test_this_very_process() -> None:
    cgroups = parse_proc_cgroup(Path("/proc/self/cgroup").read_text())
    assert cgroups.v2_path is not None or cgroups.v1_paths


@pytest.mark.parametrize("scope", ["slurmstepd.scope", "node1_slurmstepd.scope"])
@pytest.mark.parametrize("folder", ["job_12", SLUID])
@pytest.mark.parametrize("below", ["system.slice/", "other.slice/"])
def test_v2_jobs_are_found_under_each_name(
    tmp_path: Path, scope: str, folder: str, below: str
) -> None:
    write(tmp_path, "cgroup.controllers", f"{below}{scope}/{folder}/step_0/user/cgroup.procs")
    found = find_job_cgroups(tmp_path, WhichJob("12", SLUID, "node1"))
    assert [(group.version, group.path) for group in found] == [(2, f"/{below}{scope}/{folder}")]


def test_another_nodes_scope_on_this_machine_is_not_taken(tmp_path: Path) -> None:
    for node in ("node1", "node2"):
        write(tmp_path, "cgroup.controllers", f"system.slice/{node}_slurmstepd.scope/job_12/x")
    paths = [group.path for group in find_job_cgroups(tmp_path, WhichJob("12", None, "node2"))]
    assert paths == ["/system.slice/node2_slurmstepd.scope/job_12"]
    assert find_job_cgroups(tmp_path, WhichJob("12", None, "node3")) == []
    assert len(find_job_cgroups(tmp_path, WhichJob("12"))) == 2


@pytest.mark.parametrize("top", ["slurm", "slurm_node1"])
def test_v1_jobs_are_found_in_each_controller(tmp_path: Path, top: str) -> None:
    for controller in ("memory", "cpuset", "cpu,cpuacct"):
        write(tmp_path, f"{controller}/{top}/uid_7/job_12/cgroup.procs")
    write(tmp_path, "blkio/system.slice/x", "memory/slurm_node2/uid_7/job_12/cgroup.procs")
    (found,) = find_job_cgroups(tmp_path, WhichJob("12", None, "node1"))
    assert (found.version, found.path) == (1, f"/{top}/uid_7/job_12")
    assert set(found.folders) == {"memory", "cpuset", "cpu", "cpuacct"}


@pytest.mark.parametrize("job", ["", "12x", "../12", "*", "12/step_0", "１２"])
def test_a_job_id_that_is_none_finds_nothing(tmp_path: Path, job: str) -> None:
    write(tmp_path, "cgroup.controllers", "system.slice/slurmstepd.scope/job_12/x")
    assert find_job_cgroups(tmp_path, WhichJob(job)) == []


@pytest.mark.parametrize("sluid", ["..", "s*", "s5K1KKYAYG5D0/", "system"])
def test_a_sluid_that_is_none_is_not_looked_for(tmp_path: Path, sluid: str) -> None:
    write(tmp_path, "cgroup.controllers", "system.slice/slurmstepd.scope/system/x")
    assert find_job_cgroups(tmp_path, WhichJob("12", sluid)) == []


def test_processes_of_all_steps(tmp_path: Path) -> None:
    job = tmp_path / "fs/cgroup/system.slice/slurmstepd.scope/job_12"
    write(tmp_path, "cgroup.controllers")
    for folder, pids in (
        ("", ""),
        ("step_0/user/task_0", "11\n12\n"),
        ("step_batch/user", "13\n0\n"),
    ):
        (job / folder).mkdir(parents=True, exist_ok=True)
        (job / folder / "cgroup.procs").write_text(pids)
    (group,) = find_job_cgroups(tmp_path, WhichJob("12"))
    assert contents_of(group) == Contents(frozenset({11, 12, 13}), foreign=1)


def test_io_samples() -> None:
    def leaves(device: bytes) -> bool:
        return device.startswith(b"8:")

    stat = (FIXTURES / "cgroup" / "io_stat_v2.txt").read_bytes()
    assert io_stat_bytes(stat, leaves) == (18239488, 14274560)
    cost = (FIXTURES / "cgroup" / "io_stat_v2_cost.txt").read_bytes()
    assert io_stat_bytes(cost + b"8:16\n\n", leaves) == (6273024, 0)
    blkio = {
        "throttle.io_service_bytes": (922000384 + 132749824, 306732544 + 253698048),
        "throttle.io_serviced": (78814 + 11452, 71433 + 19900),  # the same form, requests
        "io_service_bytes": (922000384 + 132749824, 295747584 + 242914816),  # CFQ's own file
    }
    for name, moved in blkio.items():
        text = (FIXTURES / "cgroup" / f"v1_blkio.{name}.txt").read_bytes()
        assert blkio_bytes(text, leaves) == moved, name


def test_ram_disks_loops_zram_and_stacked_devices_are_no_disks(tmp_path: Path) -> None:
    text = (FIXTURES / "cgroup" / "v1_blkio.throttle.io_service_bytes.txt").read_bytes()
    for number in range(4):
        (tmp_path / f"dev/block/253:{number}/slaves/sda").mkdir(parents=True)
    (tmp_path / "block/zram0").mkdir(parents=True)
    (tmp_path / "dev/block/252:0").symlink_to(tmp_path / "block/zram0")
    is_disk = LowestDevices(tmp_path)
    assert blkio_bytes(text, is_disk) == (922000384 + 132749824, 306732544 + 253698048)
    assert [is_disk(number) for number in (b"252:0", b"7:3", b"11:0", b"259:1", b"8:0\0")] == [
        False, False, False, True, True,
    ]  # fmt: skip


@given(st.binary())
def test_no_io_text_breaks_the_parsers(text: bytes) -> None:
    for parse in (io_stat_bytes, blkio_bytes):
        read_bytes, write_bytes = parse(text, lambda device: True)
        assert read_bytes >= 0 and write_bytes >= 0
