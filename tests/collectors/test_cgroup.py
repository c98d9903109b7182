"""The cgroup collector on made-up trees of v1, v2 and hybrid systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_io.collectors.cgroup import Cgroup
from tests.collectors.fake_host import FIXTURES, context, rows_at, tick, write_tree

V2 = "/system.slice/node7_slurmstepd.scope/job_12"
V1 = "/slurm/uid_1000/job_12"


def v2_files(usage: int, io: str | None, psi: int) -> dict[str, str]:
    job = f"sys/fs/cgroup{V2}"
    files = {
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory\n",
        f"{job}/cpu.stat": f"usage_usec {usage}\nuser_usec 1\nnr_periods 5\n"
        f"nr_throttled {usage // 100}\nthrottled_usec {usage // 10}\n",
        f"{job}/memory.current": "4096000\n",
        f"{job}/memory.max": "max\n",
        f"{job}/memory.stat": "anon 1000\nfile 2000\nkernel 5\nshmem 300\nfile_mapped 9\n"
        "anon_thp 77\n",
        f"{job}/io.pressure": f"some avg10=0 avg60=0 avg300=0 total={psi}\n"
        "full avg10=0 avg60=0 avg300=0 total=1\n",
        f"{job}/cpu.pressure": f"some avg10=0 avg60=0 avg300=0 total={psi * 2}\n",
        "sys/fs/cgroup/system.slice/node7_slurmstepd.scope/memory.max": "8589934592\n",
        "sys/fs/cgroup/system.slice/memory.max": "max\n",
    }
    return files | ({} if io is None else {f"{job}/io.stat": io})


def test_v2_one_second(tmp_path: Path) -> None:
    io = (FIXTURES / "cgroup" / "io_stat_v2.txt").read_text()
    write_tree(tmp_path, v2_files(1000, io, psi=50) | {"sys/dev/block/253:0/slaves/sda": ""})
    collector = Cgroup()
    collector.open(context(tmp_path, [V2]))
    assert rows_at(collector, 0) == []
    more = io.replace("8:0 rbytes=18239488 wbytes=14274560", "8:0 rbytes=18243584 wbytes=14274570")
    more = more.replace("253:0 rbytes=18239488", "253:0 rbytes=99999999")
    write_tree(tmp_path, v2_files(6000, more, psi=80))
    (row,) = rows_at(collector, 1)
    assert (row["path"], row["version"]) == (V2, 2)
    assert (row["cpu_ns"], row["throttled_ns"], row["throttled_periods"]) == (
        5_000_000,
        500_000,
        50,
    )
    assert (row["mem_current_bytes"], row["mem_limit_bytes"]) == (4096000, 8589934592)
    assert (row["mem_anon_bytes"], row["mem_file_bytes"], row["mem_shmem_bytes"]) == (
        1000, 2000, 300,
    )  # fmt: skip
    # The dm on top of 8:0 moved more, which would count the same bytes twice.
    assert (row["read_bytes"], row["write_bytes"]) == (4096, 10)
    assert (row["psi_io_some_ns"], row["psi_cpu_some_ns"]) == (30_000, 60_000)
    assert row["psi_memory_some_ns"] is None


def test_v2_without_io_controller_is_null_with_the_remedy(tmp_path: Path) -> None:
    write_tree(tmp_path, v2_files(1000, None, 1))
    collector = Cgroup()
    availability = collector.open(context(tmp_path, [V2]))
    assert availability.state == "partial" and "EnableExtraControllers=io" in availability.reason
    rows_at(collector, 0)
    (row,) = rows_at(collector, 1)
    assert row["read_bytes"] is None and row["write_bytes"] is None


def v1_files(usage: int) -> dict[str, str]:
    root = "sys/fs/cgroup"
    return {
        f"{root}/cpu,cpuacct{V1}/cpuacct.usage": f"{usage}\n",
        f"{root}/cpu,cpuacct{V1}/cpu.stat": "nr_periods 1\nnr_throttled 4\nthrottled_time 900\n",
        f"{root}/memory{V1}/memory.usage_in_bytes": "5000\n",
        f"{root}/memory{V1}/memory.limit_in_bytes": "9223372036854771712\n",
        f"{root}/memory/slurm/uid_1000/memory.limit_in_bytes": "700000\n",
        f"{root}/memory{V1}/memory.stat": "cache 1\nrss 2\ntotal_cache 10\ntotal_rss 20\n"
        "total_rss_huge 5\ntotal_shmem 30\n",
        f"{root}/blkio/system.slice/slurmd.service/blkio.throttle.io_service_bytes": "Total 5\n",
    }


def test_v1_one_second_with_blkio_left_to_slurmd(tmp_path: Path) -> None:
    write_tree(tmp_path, v1_files(1000))
    collector = Cgroup()
    availability = collector.open(context(tmp_path, [V1]))
    assert availability.state == "partial" and "blkio" in availability.reason
    rows_at(collector, 0)
    write_tree(tmp_path, v1_files(51000))
    (row,) = rows_at(collector, 1)
    assert (row["version"], row["cpu_ns"]) == (1, 50000)
    assert (row["mem_current_bytes"], row["mem_limit_bytes"]) == (5000, 700000)
    assert (row["mem_anon_bytes"], row["mem_file_bytes"], row["mem_shmem_bytes"]) == (20, 10, 30)
    assert row["read_bytes"] is None and row["psi_io_some_ns"] is None


def test_v1_blkio_adds_up_the_lowest_devices(tmp_path: Path) -> None:
    text = (FIXTURES / "cgroup" / "v1_blkio.throttle.io_service_bytes.txt").read_text()
    file = f"sys/fs/cgroup/blkio{V1}/blkio.throttle.io_service_bytes_recursive"
    stacked = {f"sys/dev/block/253:{minor}/slaves/sda": "" for minor in range(4)}
    write_tree(
        tmp_path, {file: text, f"sys/fs/cgroup/memory{V1}/memory.usage_in_bytes": "1"} | stacked
    )
    collector = Cgroup()
    collector.open(context(tmp_path, [V1]))
    rows_at(collector, 0)
    write_tree(tmp_path, {file: text.replace("8:0 Write 253698048", "8:0 Write 253698148")
                          .replace("253:3 Read 227095040", "253:3 Read 999999999")})  # fmt: skip
    (row,) = rows_at(collector, 1)
    assert (row["read_bytes"], row["write_bytes"]) == (0, 100)


def test_hybrid_prefers_the_tree_that_has_the_controllers(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        v1_files(1)
        | {
            "sys/fs/cgroup/unified/cgroup.controllers": "",
            f"sys/fs/cgroup/unified{V1}/cpu.stat": "usage_usec 5\n",
        },
    )
    collector = Cgroup()
    collector.open(context(tmp_path, [V1]))
    rows_at(collector, 0)
    assert [row["version"] for row in rows_at(collector, 1)] == [1]


def test_no_control_groups_at_all_is_off(tmp_path: Path) -> None:
    availability = Cgroup().open(context(tmp_path, [V2]))
    assert availability.state == "off" and "control groups" in availability.reason


def test_a_group_that_comes_with_the_first_step_is_found_and_forgotten(tmp_path: Path) -> None:
    write_tree(tmp_path, {"sys/fs/cgroup/cgroup.controllers": "cpu\n"})
    paths: list[str] = []
    collector = Cgroup()
    assert collector.open(context(tmp_path, paths)).state == "partial"
    assert rows_at(collector, 0) == []
    write_tree(tmp_path, v2_files(1000, None, 1))
    paths.append(V2)
    assert rows_at(collector, 1) == []
    assert len(rows_at(collector, 2)) == 1
    assert list(collector.facts()["groups"]) == [V2]  # type: ignore[call-overload]
    paths.clear()
    assert collector.collect(tick(3)) == []
    facts = collector.facts()
    assert list(facts["groups"]) == [V2]  # type: ignore[call-overload]
    assert facts["state"] == "partial" and "EnableExtraControllers" in str(facts["reason"])


def test_controllers_that_join_later_are_read_from_then_on(tmp_path: Path) -> None:
    """Slurm makes the groups of the v1 hierarchies one after the other."""
    files = v1_files(1000)
    first = {name: text for name, text in files.items() if "/memory" not in name}
    write_tree(tmp_path, first)
    collector = Cgroup()
    assert "memory controller" in collector.open(context(tmp_path, [V1])).reason
    rows_at(collector, 0)
    assert rows_at(collector, 1)[0]["mem_current_bytes"] is None
    write_tree(tmp_path, files)
    late = [rows_at(collector, second)[0]["mem_current_bytes"] for second in (2, 3, 4, 5, 6)]
    assert late[-1] == 5000 and late[0] is None
    assert "memory controller" not in str(collector.facts()["reason"])


def test_an_empty_group_has_its_rows(tmp_path: Path) -> None:
    """A step that crashed can leave a job that holds its GPUs and has no process."""
    write_tree(tmp_path, v2_files(1000, None, 1) | {f"sys/fs/cgroup{V2}/cgroup.procs": ""})
    collector = Cgroup()
    collector.open(context(tmp_path, [V2]))
    rows_at(collector, 0)
    (row,) = rows_at(collector, 1)
    assert (row["cpu_ns"], row["mem_current_bytes"]) == (0, 4096000)


def test_a_limit_that_changes_is_seen_within_half_a_minute(tmp_path: Path) -> None:
    write_tree(tmp_path, v2_files(1000, None, 1))
    collector = Cgroup()
    collector.open(context(tmp_path, [V2]))
    rows_at(collector, 0)
    write_tree(tmp_path, {f"sys/fs/cgroup{V2}/memory.max": "1000000\n"})
    assert rows_at(collector, 1)[0]["mem_limit_bytes"] == 8589934592
    assert rows_at(collector, 31)[0]["mem_limit_bytes"] == 1000000


@pytest.mark.parametrize("path", ["/../../etc", "/nowhere/job_12"])
def test_paths_that_lead_nowhere_give_nothing(tmp_path: Path, path: str) -> None:
    write_tree(tmp_path, v2_files(1000, None, 1))
    collector = Cgroup()
    assert collector.open(context(tmp_path, [path])).state == "partial"
    assert collector.facts()["groups"] == {}
