"""Weka's recorded texts, read to their last value, and what the readings say together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.filesystems.mounts import parse_mountinfo
from slurm_io.filesystems.weka.client import WekaClient
from slurm_io.filesystems.weka.interface import FrontEnd, parse_interface
from slurm_io.filesystems.weka.stat import WekaOperation, class_of, parse_stat
from slurm_io.filesystems.weka.status import WekaStatus, parse_status
from tests.filesystems.client_samples import sample

# name: count, user mean and longest (us), kernel mean and longest (ns)
STAT = {
    "total": (718319292, 812, 563448, 9398, 10125660),
    "lookup": (4079, 117, 3105, 6485, 436709),
    "readdir": (0, 0, 0, 0, 0),
    "mknod": (96, 231, 453, 3970, 6337),
    "open": (0, 0, 0, 0, 0),
    "release": (0, 0, 0, 0, 0),
    "read": (0, 0, 0, 0, 0),
    "write": (983137, 18957, 563448, 495291, 920127),
    "getattr": (1, 10, 10, 6771, 6771),
    "setattr": (96, 245, 424, 4991, 48222),
    "statfs": (7, 4664, 5072, 38947, 59618),
    "SG_allocate": (983072, 1042, 7118, 2161, 110282),
    "falloc": (96, 349, 472, 4184, 10239),
    "getroot": (1, 19701, 19701, 57853, 57853),
    "jumbo write": (0, 0, 0, 0, 0),
    "jumbo read": (0, 0, 0, 0, 0),
    "keepalive": (184255, 46, 1639968, 1462, 38996),
    "ioctl": (717328710, 787, 50631, 8732, 10125660),
    "setfileaccess": (3072, 130, 3437, 6440, 71036),
}


def line(
    name: str, ops: int, mean_us: int, kernel_ns: int = 0, longest_us: int = 0, more: str = ""
) -> str:
    return (
        f"{name}:{mean_us:>20} us{longest_us:>14} us{kernel_ns:>13} ns{0:>15} ns{ops:>14} {more}\n"
    )


def test_every_value_of_the_recorded_counters() -> None:
    stat = parse_stat(sample("weka/proc_wekafs_stat_3.6.txt"))
    assert stat.damaged == 0
    assert {each.name: tuple(each[1:]) for each in stat.operations} == STAT


def test_classes_leave_out_what_is_no_work_of_its_own() -> None:
    by_class: dict[str | None, set[str]] = {}
    for name in STAT:
        by_class.setdefault(class_of(name), set()).add(name)
    assert by_class.pop("meta") == {
        "lookup", "readdir", "mknod", "open", "release", "getattr", "setattr", "statfs", "falloc",
        "getroot", "setfileaccess",
    }  # fmt: skip
    assert by_class == {
        "read": {"read", "jumbo read"},
        "write": {"write", "jumbo write"},
        "any": {"ioctl"},
        None: {"total", "keepalive", "SG_allocate"},
    }


def test_every_value_of_the_recorded_interface() -> None:
    found = parse_interface(sample("weka/proc_wekafs_interface.txt"))
    options = (
        "writecache", "inode_bits=auto", "readahead_kb=32768", "dentry_max_age_positive=1000",
        "dentry_max_age_negative=0", "container_name=client0001",
    )  # fmt: skip
    assert found.version == "2e694b326b50d08a"
    assert (found.driver_state, found.active_mounts) == ("DRIVER_ACCEPTING", 2)
    assert [tuple(mount) for mount in found.mounts] == [
        (name, "wc-client0001", "client0001", options) for name in ("fs698", "fs649")
    ]
    assert [tuple(each) for each in found.front_ends] == [
        ("client0001", 0, True, 4081176, "Connected frontend pid 4081176"),
        ("client0002", 1, True, 4081177, "Connected frontend pid 4081177"),
    ]
    names = (
        "num_enospc_errors", "num_other_errors", "num_sync_enospc", "num_sync_retryable_errs",
        "num_sync_other_errs", "num_fenced_inodes", "num_revoked_locks", "dirty_bytes_dropped",
    )  # fmt: skip
    assert found.errors == {f"NS_{name}": 0 for name in names}
    assert (found.damaged, found.is_cut_off) == (0, False)


@pytest.mark.parametrize(
    "said", ["Frontend is not connected", "Container=c1 FE 0: Frontend is not connected"]
)
def test_a_front_end_that_is_gone_is_seen_however_it_is_said(said: str) -> None:
    found = parse_interface(f"GW driver_state: DRIVER_ACCEPTING\n{said}\nNS_num_fenced_inodes: 3\n")
    assert found.is_cut_off and found.errors == {"NS_num_fenced_inodes": 3}
    (front_end,) = found.front_ends
    assert (front_end.connected, front_end.pid) == (False, None)


def test_a_front_end_in_a_state_we_do_not_know_is_not_called_gone() -> None:
    found = parse_interface("Container=c1 FE 2: Upgrading frontend pid 12\n")
    assert found.front_ends == (FrontEnd("c1", 2, None, 12, "Upgrading frontend pid 12"),)
    assert not found.is_cut_off


def test_every_value_of_the_recorded_status() -> None:
    assert parse_status(sample("weka/weka_status_text_3.6.txt")) == WekaStatus(
        cluster="cluster1",
        status="OK",
        status_detail="12 backends UP, 72 drives UP",
        io_status="STARTED 1 day ago (1584 buckets UP, 228 io-nodes UP)",
        reads_bytes_s=int(61.54 * 2**30),
        reads_io_s=63019,
        writes_bytes_s=0,
        writes_io_s=0,
        operations_s=63019,
    )


def test_the_mount_of_the_recorded_line() -> None:
    source, _, rest = sample("weka/mount_line.txt").strip().partition(" on ")
    point, _, rest = rest.partition(" type ")
    fstype, _, options = rest.partition(" (")
    text = f"36 1 0:45 / {point} {options.rstrip(')')} - {fstype} {source} rw\n"
    (mount,) = parse_mountinfo(text)
    assert (mount.kind, mount.source, mount.mount_point) == (
        "weka", "192.0.2.31/fs01", "/mnt/weka",
    )  # fmt: skip
    assert mount.option("inode_bits") == "auto"


class TestReadingsTogether:
    def test_means_come_from_the_difference_of_totals(self) -> None:
        client = WekaClient()
        client.take(parse_stat(line("read", 1000, 100, 2000)))
        # 3000 more: 4000 * 400 us in all, less the 1000 * 100 us before: 500 us each
        reading = client.take(parse_stat(line("read", 4000, 400, 5000)))["read"]
        assert reading.counters.ops == 4000
        assert reading.rtt_ms == pytest.approx(0.5)
        assert reading.exe_ms == pytest.approx(0.5 + 0.006)
        assert (client.known, client.too_coarse) == (1, 0)

    def test_lines_of_a_class_are_added_before_the_mean_is_made(self) -> None:
        client = WekaClient()
        client.take(parse_stat(line("lookup", 100, 100) + line("open", 100, 1000)))
        text = line("lookup", 400, 100) + line("open", 200, 1000)
        reading = client.take(parse_stat(text))["meta"]
        assert reading.counters.ops == 600
        assert reading.rtt_ms == pytest.approx((300 * 0.1 + 100 * 1.0) / 400)

    def test_after_many_operations_a_second_cannot_be_told_from_the_mean(self) -> None:
        client = WekaClient()
        client.take(parse_stat(line("ioctl", 717_328_710, 787)))
        reading = client.take(parse_stat(line("ioctl", 717_391_970, 787)))["any"]
        # Half a microsecond of rounding on 7 * 10^8 operations is 350 s: nothing is known.
        assert (reading.rtt_ms, reading.exe_ms) == (None, None)
        assert reading.counters.ops == 717_391_970
        assert (client.known, client.too_coarse) == (0, 1)
        assert "any" not in client.means_since_start_ms()

    def test_since_the_start_it_can_be_told_when_enough_was_done(self) -> None:
        client = WekaClient()
        client.take(parse_stat(line("read", 1_000_000, 100)))
        for ops in range(1_010_000, 2_000_000, 10_000):
            client.take(parse_stat(line("read", ops, 100)))
        client.take(parse_stat(line("read", 3_000_000, 800)))
        assert client.means_since_start_ms() == {"read": pytest.approx(1.15, abs=0.001)}

    def test_a_reloaded_driver_gives_no_time_of_before(self) -> None:
        client = WekaClient()
        client.take(parse_stat(line("read", 1000, 900)))
        reading = client.take(parse_stat(line("read", 10, 100)))["read"]
        assert (reading.rtt_ms, reading.exe_ms) == (None, None)
        after = client.take(parse_stat(line("read", 20, 100)))["read"]
        assert after.rtt_ms == pytest.approx(0.1)

    def test_a_longest_time_that_grew_is_kept(self) -> None:
        client = WekaClient()
        client.take(parse_stat(line("read", 10, 5, longest_us=2000) + line("keepalive", 1, 1)))
        assert client.new_longest_ms() == {}
        client.take(parse_stat(line("read", 11, 5, longest_us=1_200_000)))
        assert client.new_longest_ms() == {"read": 1200.0}

    @given(
        means=st.lists(st.integers(0, 10**7), min_size=2, max_size=8),
        counts=st.lists(st.integers(0, 10**12), min_size=2, max_size=8),
    )
    def test_a_time_is_never_negative_whatever_the_means(
        self, means: list[int], counts: list[int]
    ) -> None:
        client = WekaClient()
        for mean_us, ops in zip(means, sorted(counts), strict=False):
            reading = client.take(parse_stat(line("write", ops, mean_us)))["write"]
            for value in (reading.rtt_ms, reading.exe_ms):
                assert value is None or value >= 0


def test_numbers_no_counter_can_be_are_left_out() -> None:
    stat = parse_stat(line("read", 2**63, 1) + line("write", 5, 2**64) + line("open", 7, 1))
    assert stat.operations == (WekaOperation("open", 7, 1, 0, 0, 0),)
    assert stat.damaged == 2
