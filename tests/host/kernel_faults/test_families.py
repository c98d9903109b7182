"""Block, file system, RAID, server, processor, memory, PCIe and GPU messages, and who may forge."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.host.kernel_faults.families import STARTS, event_of, events_of, judge
from slurm_io.host.kernel_faults.model import Finding, View
from slurm_io.host.kernel_log import KernelLine, parse_log_text, parse_record

LOST = "Lustre: scratch-OST003a-osc-ffff3000ef06c000: Connection to scratch-OST003a (at 10.0.0.4@tcp) was lost; in progress operations using this service will wait for recovery to complete"  # noqa: E501
EVICTED = "LustreError: 167-0: scratch-OST003a-osc-ffff3000ef06c000: This client was evicted by scratch-OST003a; in progress operations using this service will fail."  # noqa: E501
RESTORED = "Lustre: scratch-OST003a-osc-ffff3000ef06c000: Connection restored to  (at 10.0.0.4@tcp)"
SKIPPED = "Lustre: Skipped 3 previous similar messages"


def findings(*messages: str, view: View | None = None, step_s: float = 10.0) -> list[Finding]:
    lines = [KernelLine(message, number * step_s) for number, message in enumerate(messages)]
    return judge(events_of(lines), view or View())


def verdicts(*messages: str, view: View | None = None) -> list[tuple[str, str, str]]:
    return [(each.subject, each.answer, each.kind) for each in findings(*messages, view=view)]


@pytest.mark.parametrize(
    "message",
    [
        "end_request: I/O error, dev sda, sector 1234",
        "blk_update_request: I/O error, dev sda, sector 1234",
        "print_req_error: I/O error, dev sda, sector 1234 flags 80700",
        (
            "blk_update_request: I/O error, dev sda, sector 1234 op 0x0:(READ) flags 0x0 phys_seg 1"
            " prio class 0"
        ),
        "I/O error, dev sda, sector 1234 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2",
        "critical medium error, dev sda, sector 1234 op 0x0:(READ) flags 0x0 phys_seg 1",
        "device offline error, dev sda, sector 1234 op 0x0:(READ) flags 0x0 phys_seg 1",
        "Buffer I/O error on dev sda3, logical block 17, async page read",
        "Buffer I/O error on device sda3, logical block 17",
    ],
)
def test_block_errors_of_all_kernels(message: str) -> None:
    assert verdicts(message) == [("sda", "FAIL", "node")]


@pytest.mark.parametrize(
    "message",
    [
        "blk_update_request: I/O error, dev fd0, sector 0",
        "I/O error, dev sr0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        "operation not supported error, dev loop0, sector 0 op 0x9:(WRITE_ZEROES) flags 0x0",
        "critical target error, dev sda, sector 0 op 0x3:(DISCARD) flags 0x800 phys_seg 1",
    ],
)
def test_harmless_block_errors(message: str) -> None:
    assert findings(message) == []


@pytest.mark.parametrize(
    ("message", "device"),
    [
        ("EXT4-fs (md0): Remounting filesystem read-only", "md0"),
        ("Aborting journal on device dm-1-8.", "dm-1"),
        (("EXT4-fs error (device nvme0n1p1): ext4_find_entry:1455: inode #2: comm ls: reading "
         "directory lblock 0"), "nvme0n1p1"),
        ("EXT4-fs error (device dm-1) in ext4_reserve_inode_write:5618: Journal has aborted",
         "dm-1"),
        ("EXT4-fs (sda1): I/O error while writing superblock", "sda1"),
        ("JBD2: Detected IO errors while flushing file data on md0-8", "md0"),
        ("XFS (md127): Filesystem has been shut down due to log error (0x2).", "md127"),
        ("XFS (dm-0): Log I/O Error Detected. Shutting down filesystem", "dm-0"),
        (("XFS (dm-0): Log I/O Error (0x2) detected at xlog_ioend_work+0x6c/0x70 [xfs] "
         "(fs/xfs/xfs_log.c:1390).  Shutting down filesystem."), "dm-0"),
        ('XFS (nvme0n1): metadata I/O error in "xfs_trans_read_buf_map" at daddr 0x4 len 8 error 5',
         "nvme0n1"),
        ("XFS (dm-3): Metadata corruption detected at xfs_agi_verify+0x5a/0x110", "dm-3"),
        ("BTRFS: error (device sdb1) in btrfs_sync_log:2331: errno=-5 IO failure", "sdb1"),
        ("BTRFS info (device sdb1 state E): forced readonly", "sdb1"),
        ("BTRFS critical (device dm-0): corrupt leaf, slot offset bad", "dm-0"),
    ],
)  # fmt: skip
def test_file_systems_with_errors(message: str, device: str) -> None:
    assert verdicts(message) == [(device, "FAIL", "node")]


@pytest.mark.parametrize(
    "message",
    [
        "EXT4-fs (sda1): mounted filesystem with ordered data mode. Opts: (null)",
        "EXT4-fs (sda1): re-mounted. Opts: errors=remount-ro",
        "XFS (loop0): Ending clean mount",
        "XFS (loop0): Unmounting Filesystem cc11d881-7296-4354-9af4-abe46ecf736e",
        "BTRFS info (device sdb1): bdev /dev/sdb1 errs: wr 1, rd 0, flush 0, corrupt 0, gen 0",
        "XFS (sda1): EXPERIMENTAL online scrub feature in use. Use at your own risk!",
    ],
)
def test_file_systems_at_peace(message: str) -> None:
    assert findings(message) == []


def test_a_new_mount_ends_read_only_and_age_does_not() -> None:
    stop = "EXT4-fs (md0): Remounting filesystem read-only"
    start = (
        "EXT4-fs (md0): mounted filesystem 8d5a-11 r/w with ordered data mode. Quota mode: none."
    )
    assert verdicts(stop, start) == []
    assert verdicts(start, stop, view=View(now_s=1e7)) == [("md0", "FAIL", "node")]


def test_checksum_errors_and_old_errors_are_degraded() -> None:
    checksum = "BTRFS warning (device dm-0): csum failed root 5 ino 257 off 0 csum 0x1 expected 0x2"
    assert verdicts(checksum) == [("dm-0", "DEGRADED", "node")]
    assert verdicts("EXT4-fs (sda1): error count since last fsck: 3") == [
        ("sda1", "DEGRADED", "node")
    ]


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("md/raid0md0: Disk failure on nvme0n1p1 detected, failing array.", "FAIL"),
        ("md: md0: raid0 array has a missing/failed member", "FAIL"),
        ("md/raid1:md0: Disk failure on sdb1, this is the last device.", "FAIL"),
        ("md/raid:md0: Cannot continue operation (3/4 failed).", "FAIL"),
        ("md/raid10:md0: Disk failure on nvme2n1, disabling device.", "DEGRADED"),
        ("md/raid:md0: read error not correctable (sector 128 on sda1).", "DEGRADED"),
    ],
)
def test_raid(message: str, answer: str) -> None:
    assert verdicts(message) == [("md0", answer, "node")]


def test_the_second_line_of_one_printk_does_not_hide_the_first() -> None:
    line = parse_record(
        b"2,9,100,-;md/raid1:md0: Disk failure on sdb1, disabling device.\\x0a"
        b"md/raid1:md0: Operation continuing on 1 devices."
    )
    assert line is not None
    (finding,) = judge(events_of([line]), View())
    assert finding.facts["members"] == ["sdb1"]


def test_lustre_lost_restored_and_evicted() -> None:
    assert verdicts(LOST) == [("scratch", "FAIL", "shared")]
    assert verdicts(EVICTED) == [("scratch", "FAIL", "shared")]
    (finding,) = findings(LOST, RESTORED)
    assert (finding.answer, finding.facts["outage_s"]) == ("OK", 10.0)
    assert verdicts(LOST, EVICTED, RESTORED) == [("scratch", "OK", "shared")]
    often = [EVICTED, RESTORED] * 3
    assert verdicts(*often) == [("scratch", "DEGRADED", "shared")]


def test_a_lustre_connection_whose_news_were_skipped_is_unsure() -> None:
    assert verdicts(LOST, SKIPPED) == [("scratch", "DEGRADED", "shared")]
    assert verdicts(SKIPPED, LOST) == [("scratch", "FAIL", "shared")]


@pytest.mark.parametrize(
    "message",
    [
        LOST.replace("osc-ffff3000ef06c000", "osc-MDT0000"),  # a server's own device
        (
            "LustreError: 166-1: MGC10.0.0.1@o2ib: Connection to MGS (at 10.0.0.1@o2ib) was lost; "
            "in progress operations using this service will fail"
        ),
    ],
)
def test_lustre_devices_that_are_no_clients_data(message: str) -> None:
    assert findings(message) == []


def test_whose_server_is_silent_decides_how_bad_it_is() -> None:
    silent = "nfs: server filer1 not responding, still trying"
    for use, answer in (("job", "FAIL"), ("other", "DEGRADED")):
        view = View(servers={"filer1": use})
        assert verdicts(silent, view=view) == [("filer1", answer, "shared")]
    assert verdicts(silent, view=View(servers={})) == [("filer1", "OK", "shared")]
    assert verdicts(LOST, view=View(lustre={"scratch": "other"})) == [
        ("scratch", "DEGRADED", "shared")
    ]


def test_a_hard_mount_hangs_however_long_ago_and_a_soft_one_may_be_back() -> None:
    late = View(now_s=1e7)
    hard, soft = (f"nfs: server a not responding, {word}" for word in ("still trying", "timed out"))
    assert verdicts(hard, view=late) == [("a", "FAIL", "shared")]
    assert verdicts(soft, view=late) == [("a", "OK", "shared")]
    (finding,) = findings(soft, view=View(now_s=3600.0))
    assert (finding.answer, finding.facts["hung_now"]) == ("DEGRADED", None)


def test_a_lockup_of_hours_ago_is_no_proof_of_a_broken_node() -> None:
    lockup = "watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [python:4242]"
    assert verdicts(lockup, view=View(now_s=60.0)) == [("CPU 3", "FAIL", "node")]
    assert verdicts(lockup, view=View(now_s=40000.0)) == [("CPU 3", "DEGRADED", "node")]


@pytest.mark.parametrize(
    ("message", "subject", "answer"),
    [
        ("NMI watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [a b:1]", "CPU 3", "FAIL"),
        ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 7", "CPU 7", "FAIL"),
        ("rcu: INFO: rcu_preempt self-detected stall on CPU", "rcu", "DEGRADED"),
        ("INFO: task jfsmount:136986 blocked for more than 120 seconds.", "tasks", "DEGRADED"),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", "memory", "DEGRADED"),
        ("Memory failure: 0x1a2b3c: recovery action for dirty LRU page: Recovered", "memory",
         "DEGRADED"),
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
         "0000:3b:00", "FAIL"),
        ("NVRM: Xid (PCI:0000:3b:00): 48, pid='<unknown>', name=<unknown>, DBE", "0000:3b:00",
         "DEGRADED"),
        ("pcieport 0000:00:01.0: pciehp: Slot(1): Link Down", "0000:00:01.0", "DEGRADED"),
        ("nvme 0000:01:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
         "0000:01:00.0", "FAIL"),
        ("nvme 0000:01:00.0: AER: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=x",
         "0000:01:00.0", "DEGRADED"),
    ],
)  # fmt: skip
def test_processors_memory_bus_and_gpu(message: str, subject: str, answer: str) -> None:
    assert verdicts(message) == [(subject, answer, "node")]


@pytest.mark.parametrize(
    "message",
    [
        "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=python, MMU Fault",  # any program can do that
        "nvme 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        "EDAC MC0: 1 CE memory read error",
        "INFO: task a blocked for more than 60 seconds.",
    ],
)
def test_what_is_no_fault_of_the_node(message: str) -> None:
    assert findings(message) == []


def test_many_corrected_bus_errors_are_a_bad_contact() -> None:
    line = (
        "nvme 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"
    )
    assert verdicts(*[line] * 100) == [("0000:01:00.0", "DEGRADED", "node")]
    view = View(addresses=frozenset({"0000:02:00.0"}))
    assert verdicts(*[line] * 100, view=view) == [("0000:01:00.0", "OK", "node")]


REAL = [
    "nfs: server a not responding, timed out",
    "EXT4-fs (md0): Remounting filesystem read-only",
    "md: md0: raid0 array has a missing/failed member",
    "watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [python:4242]",
    "nvme nvme0: Removing after probe failure status: -19",
    "I/O error, dev nvme0n1, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
    LOST,
]


@pytest.mark.parametrize("message", REAL)
@pytest.mark.parametrize(
    "around",
    [
        "x: {}", "audit: type=1326 comm={}", "{}: attempt to access beyond end of device",
        "process '{}' started with executable stack", "{} invoked oom-killer: gfp_mask=0x1",
        "tmpfs: Unknown parameter '{}'", "usb 1-1: Product: {}", "{}[42]: segfault at 0 ip 0 sp 0",
    ],
)  # fmt: skip
def test_no_message_that_quotes_a_users_words_is_an_event(message: str, around: str) -> None:
    assert event_of(KernelLine(message, 1.0)) is not None
    quoted = message[:15] if around.startswith("{}") else message  # a process name has 15 letters
    assert event_of(KernelLine(around.format(quoted), 1.0)) is None


@pytest.mark.parametrize("message", REAL)
def test_a_process_name_is_too_short_to_be_an_event(message: str) -> None:
    assert event_of(KernelLine(message[:15], 1.0)) is None


CRASHES = [  # what any user can have the kernel say, with a process's and a file's name of his own
    (
        b"6,347,84293,-;XFS (dm-0): [24276]: segfault at 0 ip 0000559325ce816a sp 00007ffc3e347650"
        b" error 6 in x Shutting down filesystem\\x0aq[116a,559325ce8000+1000] likely on CPU 1"
    ),
    (
        b"6,348,84293,-;XFS (dm-0): \\xff\\xff[24276]: segfault at 0 ip 0000559325ce816a sp 0"
        b" error 6 in x Shutting down filesystem"
    ),
    (
        b"6,349,84293,-;XFS (dm-0): [7[24276]: segfault at 0 ip 0 sp 0 error 6 in"
        b" x Shutting down filesystem"
    ),
    b"6,350,84293,-;EDAC MC0: 1 UE [24277]: segfault at 0 ip 0 sp 0 error 6 in a on b[1+1]",
    b"4,351,84293,-;EDAC MC0: 1 UE  invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0",
    b"4,352,84293,-;EDAC MC0: 1 UE invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0",
    b"4,353,84293,-;EDAC MC0: 1 UE : page allocation failure: order:0,cpuset=a on b,mems=0",
]


@pytest.mark.parametrize("record", CRASHES)
def test_a_crash_of_a_users_program_under_a_chosen_name_is_no_fault(record: bytes) -> None:
    line = parse_record(record)
    assert line is not None and line.message.startswith(STARTS)
    assert event_of(line) is None


def test_a_shut_down_in_the_kernels_own_words_still_is_one() -> None:
    words = "XFS (dm-0): Log I/O Error (0x2) detected at f+0x6c/0x70 [9]. Shutting down filesystem"
    assert verdicts(words) == [("dm-0", "FAIL", "node")]


def test_a_hung_tasks_name_cannot_speak_for_a_server() -> None:
    name = "nfs: server a O"
    (finding,) = findings(f"INFO: task {name}:7 blocked for more than 120 seconds.")
    assert (finding.family, finding.answer) == ("cpu", "DEGRADED")


STARTED = st.builds(str.__add__, st.sampled_from(STARTS), st.text(max_size=80))
MUTATED = st.builds(
    lambda text, at, letters: text[: at % len(text)] + letters + text[at % len(text) + 1 :],
    st.sampled_from(REAL),
    st.integers(0, 300),
    st.text(max_size=4),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(STARTED, MUTATED, st.text(max_size=80)), max_size=12))
def test_any_messages_are_judged(messages: list[str]) -> None:
    for finding in findings(*messages):
        assert finding.answer in ("OK", "DEGRADED", "FAIL")
        assert finding.kind in ("node", "shared")
        assert finding.text


@pytest.mark.long
def test_long_fuzz_of_the_kernel_log() -> None:
    """Mutated real logs for SLURM_IO_FUZZ_S seconds (60): no crash, no finding from noise."""
    import random
    import time

    seed = random.randrange(1 << 32)
    random_ = random.Random(seed)
    cases = Path(__file__).parents[2] / "fixtures" / "cases"
    texts = [path.read_text() for path in cases.glob("E0[46]*/*.txt")] + REAL
    end_s = time.monotonic() + float(os.environ.get("SLURM_IO_FUZZ_S", "60"))
    while time.monotonic() < end_s:
        text = list(random_.choice(texts))
        for _ in range(random_.randrange(1, 12)):
            at = random_.randrange(len(text))
            text[at : at + random_.randrange(3)] = [
                chr(random_.choice((10, 32, 48, 91, 58, 0x20AC)))
            ]
        lines = parse_log_text("".join(text))
        for finding in judge(events_of(lines), View(now_s=random_.choice((None, 0.0, 1e9)))):
            assert finding.answer in ("OK", "DEGRADED", "FAIL"), (seed, finding)
