"""GPFS's recorded answers, read to their last value; its waiters as gpfs_exporter counts them."""

from __future__ import annotations

import pytest

from slurm_io.filesystems.client_counters import ClientCounters
from slurm_io.filesystems.gpfs.counters import counters_of
from slurm_io.filesystems.gpfs.mmpmon import GpfsIo, parse_mmpmon
from slurm_io.filesystems.gpfs.waiters import (
    Waiter,
    longest,
    parse_waiters,
    parse_waiters_text,
    parse_waiters_y,
)
from tests.filesystems.client_samples import sample

GPFS0 = GpfsIo(
    node="node001",
    cluster="cluster1.example.org",
    filesystem="gpfs0",
    disks=107,
    time_s=1421869154,
    time_us=766776,
    read_bytes=3592793024,
    written_bytes=2552776479,
    opens=6758,
    closes=6542,
    reads=2923,
    writes=176495,
    readdirs=1367,
    inode_updates=1418,
)


def test_every_value_of_one_file_system() -> None:
    answer = parse_mmpmon(sample("gpfs/mmpmon_fs_io_s_pcp.txt"))
    assert answer == ((GPFS0,), 0, 0)


def test_two_file_systems_as_gpfs_exporter_reads_them() -> None:
    answer = parse_mmpmon(sample("gpfs/mmpmon_fs_io_s_two_fs.txt"))
    assert (answer.refused, answer.damaged) == (0, 0)
    assert answer.lines == (
        GpfsIo(
            "node001", "cluster1.example.org", "scratch", 48, 1579358234, 53212, 205607400434,
            74839282351, 2377656, 2201576, 59420404, 18874626, 40971, 544768,
        ),
        GpfsIo(
            "node001", "cluster1.example.org", "project", 96, 1579358234, 53212, 0, 0, 513, 513, 0,
            0, 0, 169,
        ),
    )  # fmt: skip


def test_the_nodes_total_is_told_from_a_file_system() -> None:
    answer = parse_mmpmon(sample("gpfs/mmpmon_io_s_and_fs_io_s.txt"))
    assert answer.lines == (
        GpfsIo("node002", None, None, None, 1548346611, 65624, 0, 0, 1, 1, 0, 0, 1, 0),
        GpfsIo(
            "node002", "cluster2.example.org", "cesroot", 4, 1548519197, 560916, 224331, 225922,
            63, 58, 35, 34, 2, 14,
        ),
    )  # fmt: skip


def test_a_line_that_says_there_is_no_data_gives_none() -> None:
    line = sample("gpfs/mmpmon_fs_io_s_pcp.txt")
    assert parse_mmpmon(line.replace("_rc_ 0", "_rc_ 1")) == ((), 1, 0)
    assert (
        parse_mmpmon("_fs_io_s_ _n_ 192.0.2.28 _nn_ node001 _rc_ 1 _t_ 1066939007\n").refused == 1
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [("_br_ 3592793024", "_br_ -1"), ("_fs_ gpfs0 ", ""), (" _iu_ 1418", ""),
     ("_bw_ 2552776479", f"_bw_ {2**63}")],
)  # fmt: skip
def test_a_damaged_line_is_counted_and_left_out(old: str, new: str) -> None:
    assert parse_mmpmon(sample("gpfs/mmpmon_fs_io_s_pcp.txt").replace(old, new)) == ((), 0, 1)


def test_classes_of_a_line() -> None:
    assert counters_of(GPFS0) == {
        "read": ClientCounters(ops=2923, bytes=3592793024),
        "write": ClientCounters(ops=176495, bytes=2552776479),
        "meta": ClientCounters(ops=6758 + 6542 + 1367 + 1418),
    }


def test_every_waiter_of_the_text_form() -> None:
    found = parse_waiters_text(sample("gpfs/mmdiag_waiters_text.txt"))
    assert found.damaged == 0
    io, poll = "for I/O completion", "for poll on sock 1379"
    reaper = "on ThCond 0x7F138008EC10 (FsckReaperCondvar), reason 'Waiting to reap fsck pointer'"
    assert found.waiters == (
        Waiter("FsckClientReaperThread", "19428", 6861.7395, False, reaper),
        Waiter("EventsExporterSenderThread", "120656", 40.4231, True, poll),
        Waiter("NSDThread", "120655", 64.389, True, io),
        Waiter("NSDThread", "120656", 44.389, True, io),
        Waiter("foobar", "120657", 44.389, True, ""),
        Waiter("NSDThread", "23170", 0.0409, True, io),
    )
    assert [each.thread for each in longest(found.waiters, 1.0)] == ["120655", "120656", "120657"]


def test_the_y_form_as_gpfs_exporter_counts_it() -> None:
    found = parse_waiters_y(sample("gpfs/mmdiag_waiters_Y.txt"))
    working = [each for each in found.waiters if not each.is_housekeeping]
    # The exporter's own test: 25 waiters, 22 of them below 1 s, 155.1957 s in all, 3 NSDThread.
    assert (len(working), len(found.waiters), found.damaged) == (25, 27, 4)
    assert sum(each.wait_s for each in working) == pytest.approx(155.1957)
    assert sum(each.wait_s <= 1 for each in working) == 22
    assert sum(each.name == "NSDThread" for each in working) == 3
    assert [each.wait_s for each in longest(found.waiters, 1.0)] == [64.3, 44.3, 44.3]
    (drain,) = [each for each in working if each.reason != "for I/O completion"]
    assert (drain.reason, drain.wait_s) == ("waiting for PG drain", 0.089)
    assert [each.name for each in found.waiters if each.is_housekeeping] == [
        "FsckClientReaperThread",
        "EventsExporterSenderThread",
    ]


def test_escapes_of_the_y_form_are_undone() -> None:
    head, line = sample("gpfs/mmdiag_waiters_Y.txt").splitlines()[:2]
    line = line.replace("reason 'Waiting", "RPC wait%3A sendOneWay%25 'Waiting")
    (waiter,) = parse_waiters_y(f"{head}\n{line}\n").waiters
    assert waiter.reason == "RPC wait: sendOneWay% 'Waiting to reap fsck pointer"


def test_without_a_header_nothing_is_guessed() -> None:
    text = "\n".join(sample("gpfs/mmdiag_waiters_Y.txt").splitlines()[1:])
    assert parse_waiters_y(text).waiters == ()


def test_the_form_is_recognised() -> None:
    for name in ("text", "Y"):
        assert parse_waiters(sample(f"gpfs/mmdiag_waiters_{name}.txt")).waiters
