"""Ceph's recorded metrics, read to their last value, and requests in flight.

The newest layout (a folder of files) and the request lists are made after the kernel's printing.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.filesystems.ceph.client import CephClient
from slurm_io.filesystems.ceph.debugfs import client_folders
from slurm_io.filesystems.ceph.metrics import CephHits, CephLatency, CephSize, parse_metrics
from slurm_io.filesystems.ceph.requests import MdsRequests, OsdRequests, parse_mdsc, parse_osdc
from slurm_io.filesystems.client_counters import ClientCounters
from tests.filesystems.client_samples import sample

LATENCY = """item          total       avg_lat(us)     min_lat(us)     max_lat(us)     stdev(us)
-----------------------------------------------------------------------------------
read          {read}           {read_us}               0               0               0
write         {write}           {write_us}          824797          1092343         103476
metadata      79          12856           1572            114572          13262
copyfrom      2           7               7               7               0
"""
SIZE = """item          total       avg_sz(bytes)   min_sz(bytes)   max_sz(bytes)  total_sz(bytes)
----------------------------------------------------------------------------------------
read          {read}           4096            4096            4096           {read_bytes}
write         {write}           4194304         4194304         4194304        {write_bytes}
copyfrom      0           0               0               0              0
"""
FILE = """item                               total
------------------------------------------
total inodes                       14
opened files                       3
pinned i_caps                      14
opened inodes                      2
"""
CAPS = """item          total           miss            hit
-------------------------------------------------
d_lease       11              0               29
caps          5               68              10702
"""
OSDC = (
    "REQUESTS 3 homeless 1\n"
    "12\tosd7\t2.2ad711d7\t2.7\t[7,2,0]/7\t[7,2,0]/7\te15\t10000000000.0\t0x400024\t1\t"
    "stat,write\n"
    "13\tosd2\t2.1ad711d7\t2.3\t[2,0]/2\t[2,0]/2\te15\t10000000001.0\t0x400014\t1\tsparse-read\n"
    "14\tosd-1\t2.1ad711d7\t2.3\t[]/-1\t[]/-1\te15\t10000000002.0\t0x400014\t1\tstat,read\n"
    "LINGER REQUESTS\n"
    "18446462598732840962\tosd10\t1.ac5aac28\t1.c28\t[10,51]/10\t[10,51]/10\te445078\t"
    "rbd_header.92dc4d5698745\t0x20\t14\tWC/0\n"
    "BACKOFFS\n"
)
MDSC = (
    "12\tmds0\tgetattr\t #100000003ed\n"
    "13\tmds0\tcreate\t(unsafe) #1/new (dir/new)\n"
    "14\t(no session)\tlookup\t #1/a\n"
    "15\t(no request)\topen\t #2/b\n"
)


def metrics_text(**given: int) -> str:
    values = {"read": 0, "read_us": 0, "write": 5, "write_us": 914013, "read_bytes": 0}
    values |= {"write_bytes": 20971520} | given
    return LATENCY.format(**values) + "\n" + SIZE.format(**values)


def test_every_value_of_the_first_version() -> None:
    found = parse_metrics(sample("ceph/debugfs_metrics_first_version.txt"))
    assert found.latencies == {
        "read": CephLatency(2312, 9000),
        "write": CephLatency(21777, 925000),
        "metadata": CephLatency(6, 4179000),
    }
    assert found.hits == {"d_lease": CephHits(2, 0, 11), "caps": CephHits(2, 14, 398418)}
    assert (found.sizes, found.inodes, found.damaged) == ({}, {}, 0)


def test_every_value_of_the_single_file() -> None:
    found = parse_metrics(sample("ceph/debugfs_metrics_single_file.txt"))
    assert found.latencies == {
        "read": CephLatency(0, 0),
        "write": CephLatency(5, 914013),
        "metadata": CephLatency(79, 12856),
    }
    assert found.sizes == {"read": CephSize(0, 0), "write": CephSize(5, 20971520)}
    assert found.inodes == {
        "opened files": 0, "pinned i_caps": 5, "opened inodes": 0, "total inodes": 4,
    }  # fmt: skip
    assert (found.hits, found.damaged) == ({}, 0)


def test_the_files_of_the_folder_one_behind_the_other() -> None:
    text = metrics_text(read=9, read_us=70, read_bytes=36864) + "\n" + FILE + "\n" + CAPS
    found = parse_metrics(text)
    assert found.damaged == 0
    assert found.latencies["read"] == CephLatency(9, 70)
    assert found.latencies["copyfrom"] == CephLatency(2, 7)
    assert found.sizes["read"] == CephSize(9, 36864)
    assert found.inodes == {
        "total inodes": 14, "opened files": 3, "pinned i_caps": 14, "opened inodes": 2,
    }  # fmt: skip
    assert found.hits["caps"] == CephHits(5, 68, 10702)


def test_a_column_that_is_not_there_is_unknown_not_zero() -> None:
    text = "item total sum_lat(us)\n---\nread 5 99\nhobby 5 99\n"
    found = parse_metrics(text)
    assert (found.latencies, found.damaged) == ({}, 2)


def test_requests_to_data_servers_by_class() -> None:
    assert parse_osdc(OSDC) == OsdRequests(reads=2, writes=1, homeless=1)
    assert parse_osdc("REQUESTS 0 homeless 0\nLINGER REQUESTS\nBACKOFFS\n") == (0, 0, 0)


def test_requests_of_kernels_before_4_7() -> None:
    old = "51\tosd0\t2.3a\t1000.0\t\tread\n52\tosd0\t2.3a\t1000.1\t\t\twrite\n"
    assert parse_osdc(old) == OsdRequests(reads=1, writes=1, homeless=0)


def test_requests_to_metadata_servers() -> None:
    # A create that was answered but is not on disk yet keeps nobody waiting.
    assert parse_mdsc(MDSC) == MdsRequests(waiting=3, without_server=2)
    # As recorded from a client whose getattr hung (blanks where the terminal showed tabs).
    assert parse_mdsc("12\tmds0\tgetattr\t #100000003ed\n") == (1, 0)


def test_folders_without_metrics_are_no_mounts(tmp_path: Path) -> None:
    mount = "1bbb7753-85e5-4d33-a860-84419fdcfd7d.client3230166"
    (tmp_path / mount / "metrics").mkdir(parents=True)
    (tmp_path / mount.replace("3230166", "636459")).mkdir()
    (tmp_path / "meta").mkdir()
    assert client_folders(tmp_path) == [mount]
    assert client_folders(tmp_path / "none") is None


class TestReadingsTogether:
    def test_counters_and_time_of_an_interval(self) -> None:
        client = CephClient()
        client.take(parse_metrics(metrics_text(read=100, read_us=2000)), None, None)
        after = metrics_text(read=300, read_us=4000, read_bytes=300 * 4096)
        readings = client.take(parse_metrics(after), OsdRequests(7, 1, 0), MdsRequests(2, 0))
        assert readings["read"].counters == ClientCounters(ops=300, bytes=300 * 4096, inflight=7)
        # (300 * 4000 - 100 * 2000) us / 200
        assert readings["read"].exe_ms == pytest.approx(5.0)
        assert readings["write"].exe_ms is None and readings["write"].counters.inflight == 1
        assert readings["meta"].counters == ClientCounters(ops=81, bytes=None, inflight=2)
        assert client.means_since_start_ms() == {"read": 5.0}

    def test_rounding_and_drift_of_a_long_life_make_it_unknown(self) -> None:
        client = CephClient()
        client.take(parse_metrics(metrics_text(read=10**9, read_us=2000)), None, None)
        reading = client.take(
            parse_metrics(metrics_text(read=10**9 + 500, read_us=2000)), None, None
        )["read"]
        assert reading.exe_ms is None and reading.counters.ops == 10**9 + 500
        assert (client.known, client.too_coarse) == (0, 1)

    def test_the_drift_of_the_clients_own_mean_makes_it_unknown(self) -> None:
        client = CephClient()
        client.take(parse_metrics(metrics_text(read=10**7, read_us=2000)), None, None)
        # Rounding alone would leave 2 us of doubt; the mean may have been off by 20 ms all along.
        after = parse_metrics(metrics_text(read=2 * 10**7, read_us=2000))
        assert client.take(after, None, None)["read"].exe_ms is None

    def test_without_the_lists_nothing_is_said_of_requests_in_flight(self) -> None:
        readings = CephClient().take(parse_metrics(metrics_text()), None, None)
        assert {each.counters.inflight for each in readings.values()} == {None}

    @given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**9)), min_size=2))
    def test_a_time_is_never_negative(self, series: list[tuple[int, int]]) -> None:
        client = CephClient()
        for ops, mean_us in sorted(series):
            text = metrics_text(read=ops, read_us=mean_us)
            value = client.take(parse_metrics(text), None, None)["read"].exe_ms
            assert value is None or value >= 0
