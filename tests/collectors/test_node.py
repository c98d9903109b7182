"""The node collector on a made-up /proc: shares, deltas, and null with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_io.collectors.node import Node
from tests.collectors.fake_host import FIXTURES, context, rows_at, write_tree

STAT = "cpu  {user} 0 {system} {idle} {iowait} 0 10 20 5 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 5 1 2\n"
TAIL = "ctxt 9\nbtime 1\nprocesses 7\nprocs_running 3\nprocs_blocked 2\nsoftirq 1 2\n"
MEMINFO = """MemTotal:       1000 kB
MemFree:         100 kB
MemAvailable:    600 kB
Cached:          300 kB
SwapCached:       11 kB
SwapTotal:       500 kB
SwapFree:        450 kB
Dirty:            70 kB
Writeback:         8 kB
Shmem:            40 kB
WritebackTmp:     99 kB
"""
NET = """Inter-|   Receive                      |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: 999999  1 0 0 0 0 0 0 999999 1 0 0 0 0 0 0
  eth0:{rx}  1 0 0 0 0 0 0 {tx} 1 0 0 0 0 0 0
 bond0:{rx}  1 0 0 0 0 0 0 {tx} 1 0 0 0 0 0 0
"""


def tree(root: Path, user: int, iowait: int, faults: int, psi: str, rx: int, ib: int) -> None:
    stat = STAT.format(user=user, system=100, idle=1000, iowait=iowait) + TAIL
    write_tree(
        root,
        {
            "proc/stat": stat,
            "proc/meminfo": MEMINFO,
            "proc/vmstat": f"nr_free_pages 5\npgfault 99\npgmajfault {faults}\nthp_x 1\n",
            "proc/pressure/cpu": (FIXTURES / "cgroup" / f"psi_{psi}_cpu.txt").read_text(),
            "proc/pressure/io": (FIXTURES / "cgroup" / f"psi_{psi}_io.txt").read_text(),
            "proc/pressure/memory": (FIXTURES / "cgroup" / f"psi_{psi}_memory.txt").read_text(),
            "proc/net/dev": NET.format(rx=rx, tx=2 * rx),
            "sys/class/net/eth0/device/vendor": "x",
            "sys/class/net/bond0/lower_eth0/x": "",
            "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data": f"{ib}\n",
            "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data": f"{2 * ib}\n",
        },
    )


def node(root: Path) -> Node:
    collector = Node()
    collector.open(context(root))
    return collector


def test_everything_of_one_second(tmp_path: Path) -> None:
    tree(tmp_path, user=100, iowait=50, faults=7, psi="002", rx=1000, ib=10)
    collector = Node()
    assert collector.open(context(tmp_path)).state == "on"
    assert rows_at(collector, 0) == []
    tree(tmp_path, user=160, iowait=90, faults=19, psi="002", rx=5000, ib=35)
    (row,) = rows_at(collector, 1)
    assert row["cpu_user_share"] == pytest.approx(0.6)
    assert row["cpu_iowait_share"] == pytest.approx(0.4)
    assert (row["cpu_system_share"], row["cpu_steal_share"]) == (0, 0)
    assert (row["procs_running"], row["procs_blocked"]) == (3, 2)
    assert row["pgmajfault"] == 12
    assert (row["net_rx_bytes"], row["net_tx_bytes"]) == (4000, 8000)
    assert (row["ib_rx_bytes"], row["ib_tx_bytes"]) == (100, 200)
    kilobytes = {
        "mem_total_bytes": 1000, "mem_available_bytes": 600, "cached_bytes": 300,
        "shmem_bytes": 40, "dirty_bytes": 70, "writeback_bytes": 8, "swap_used_bytes": 50,
    }  # fmt: skip
    assert {name: row[name] for name in kilobytes} == {k: v * 1024 for k, v in kilobytes.items()}
    assert row["psi_io_some_ns"] == 0
    assert row["interval_ns"] == 1_000_000_000


def test_pressure_is_the_growth_of_total_in_nanoseconds(tmp_path: Path) -> None:
    tree(tmp_path, 1, 1, 1, "001", 1, 1)
    collector = node(tmp_path)
    rows_at(collector, 0)
    tree(tmp_path, 2, 1, 1, "002", 1, 1)
    (row,) = rows_at(collector, 1)
    # psi_001 and psi_002: cpu some 157656722 and 424932863, io some 55963282 and 63881296, io full
    # 30048725 and 62029809 us; memory is smaller in the second: unknown
    assert row["psi_cpu_some_ns"] == 267276141_000
    assert row["psi_io_some_ns"] == 7918014_000
    assert row["psi_io_full_ns"] == 31981084_000
    assert row["psi_memory_some_ns"] is None and row["psi_memory_full_ns"] is None


def test_iowait_that_goes_back_is_unknown(tmp_path: Path) -> None:
    tree(tmp_path, 100, 50, 1, "002", 1, 1)
    collector = node(tmp_path)
    rows_at(collector, 0)
    tree(tmp_path, 200, 40, 1, "002", 1, 1)
    (row,) = rows_at(collector, 1)
    assert row["cpu_iowait_share"] is None


def test_counters_that_went_back_or_stand_at_their_ceiling_are_unknown(tmp_path: Path) -> None:
    tree(tmp_path, 1, 1, 50, "002", 5000, 2**32 - 1)
    collector = node(tmp_path)
    rows_at(collector, 0)
    tree(tmp_path, 2, 1, 40, "002", 10, 2**32 - 1)
    (row,) = rows_at(collector, 1)
    unknown = ("pgmajfault", "net_rx_bytes", "net_tx_bytes", "ib_rx_bytes", "ib_tx_bytes")
    assert [row[name] for name in unknown] == [None] * 5


def test_a_node_without_pressure_and_infiniband_says_so(tmp_path: Path) -> None:
    write_tree(tmp_path, {"proc/stat": STAT.format(user=1, system=1, idle=1, iowait=1) + TAIL})
    collector = Node()
    availability = collector.open(context(tmp_path))
    assert availability.state == "partial" and "PSI" in availability.reason
    missing = collector.facts()["missing"]
    assert isinstance(missing, dict)
    assert {"pressure/io", "meminfo", "net/dev", "infiniband"} <= missing.keys()
    rows_at(collector, 0)
    (row,) = rows_at(collector, 1)
    absent = [name for name, value in row.items() if value is None]
    assert {"mem_total_bytes", "psi_io_some_ns", "net_rx_bytes", "ib_rx_bytes"} <= set(absent)
    assert row["procs_running"] == 3


def test_without_cards_what_has_nothing_below_counts(tmp_path: Path) -> None:
    net = NET.format(rx=1, tx=1) + "  veth1:50 1 0 0 0 0 0 0 60 1 0 0 0 0 0 0\n"
    write_tree(
        tmp_path, {"proc/stat": "", "proc/net/dev": net, "sys/class/net/bond0/lower_eth0/x": ""}
    )
    assert node(tmp_path).facts()["interfaces"] == ["eth0", "veth1"]


def test_this_very_machine() -> None:
    collector = Node()
    availability = collector.open(context(Path("/")))
    assert availability.state in ("on", "partial")
    rows_at(collector, 0)
    (row,) = rows_at(collector, 1)
    assert row["mem_total_bytes"] > 2**20
    assert row["procs_running"] >= 1
    assert row["pgmajfault"] >= 0
    collector.close()
