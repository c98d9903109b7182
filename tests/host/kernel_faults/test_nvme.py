"""NVMe: words of all kernel versions, grades, and one error told by two layers."""

from __future__ import annotations

import pytest

from slurm_io.host.kernel_faults import nvme
from slurm_io.host.kernel_faults.families import events_of, judge
from slurm_io.host.kernel_faults.model import Finding, View
from slurm_io.host.kernel_log import KernelLine


def findings(*messages: str, view: View | None = None, step_s: float = 0.1) -> list[Finding]:
    lines = [KernelLine(message, number * step_s) for number, message in enumerate(messages)]
    return judge(events_of(lines), view or View())


@pytest.mark.parametrize(
    ("message", "action"),
    [
        ("nvme nvme0: I/O 978 QID 3 timeout, completion polled", "completion polled"),
        ("nvme nvme0: I/O 22 QID 0 timeout, disable controller", "disable controller"),
        ("nvme nvme10: I/O 14 QID 2 timeout, reset controller", "reset controller"),
        ("nvme nvme0: I/O 335 (I/O Cmd) QID 1 timeout, aborting", "aborting"),
        ("nvme nvme0: I/O tag 12 (100c) QID 0 timeout, completion polled", "completion polled"),
        (
            "nvme nvme4: I/O tag 22 (2016) opcode 0x2 (Admin Cmd) QID 0 timeout, reset controller",
            "reset controller",
        ),
        (
            (
                "nvme nvme0: I/O tag 3 (f003) opcode 0x1 (I/O Cmd) QID 7 timeout, aborting "
                "req_op:WRITE(1) size:131072"
            ),
            "aborting",
        ),
    ],
)
def test_timeouts_of_all_kernels(message: str, action: str) -> None:
    event = nvme.parse(message, 1.0)
    assert event is not None and (event.what, event.details["action"]) == ("timeout", action)


@pytest.mark.parametrize(
    "message",
    [
        "nvme nvme0: Removing after probe failure status: -19",
        "nvme nvme0: Disabling device after reset failure: -19",
        "nvme nvme0: failure state error detected, request disconnect",
    ],
)
def test_a_drive_that_is_gone(message: str) -> None:
    (finding,) = findings(message)
    assert (finding.answer, finding.kind, finding.facts["removed"]) == ("FAIL", "node", True)


def test_a_drive_that_came_back_is_there() -> None:
    (finding,) = findings(
        "nvme nvme0: Removing after probe failure status: -4",
        "nvme nvme0: 16/0/0 default/read/poll queues",
    )
    assert (finding.answer, finding.facts["removed"]) == ("DEGRADED", False)


@pytest.mark.parametrize(
    "message",
    [
        "nvme nvme0: pci function 0000:01:00.0",
        "nvme nvme0: 16/0/0 default/read/poll queues",
        "nvme nvme0: Abort status: 0x0",
        "nvme0: Identify(0x6), Invalid Field in Command (sct 0x0 / sc 0x2) DNR",
        "nvme0n1: Write Zeroes(0x8) @ LBA 0, 8 blocks, Invalid Field (sct 0x0 / sc 0x2) DNR",
        "nvme nvme0: I/O 1 QID 1 timeout, completion polled and more that no kernel says",
    ],
)
def test_no_trouble(message: str) -> None:
    assert findings(message) == []


def test_a_reset_without_a_lost_read_is_a_warning_and_three_are_not() -> None:
    reset = "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff"
    assert [finding.answer for finding in findings(reset)] == ["DEGRADED"]
    assert [finding.answer for finding in findings(reset, reset, reset)] == ["FAIL"]


def test_an_error_on_a_drive_with_4096_byte_blocks_is_one_error() -> None:
    (finding,) = findings(
        "nvme1n1: Read(0x2) @ LBA 1000, 8 blocks, Unrecovered Read Error (sct 0x2 / sc 0x81) MORE",
        "critical medium error, dev nvme1n1, sector 8000 op 0x0:(READ) flags 0x0 phys_seg 1",
        "Buffer I/O error on dev nvme1n1p1, logical block 744, async page read",
    )
    assert (finding.facts["io_errors"], finding.answer) == (1, "FAIL")


def test_two_sectors_and_a_second_try_are_several_errors() -> None:
    (finding,) = findings(
        "I/O error, dev nvme1n1, sector 8000 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        "I/O error, dev nvme1n1, sector 8008 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        "I/O error, dev nvme1n1, sector 8000 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
    )
    assert finding.facts["io_errors"] == 3


def test_the_echo_of_the_page_cache_alone_is_one_error() -> None:
    (finding,) = findings(
        "Buffer I/O error on dev nvme0n1p2, logical block 7, lost async page write"
    )
    assert (finding.facts["io_errors"], finding.answer) == (1, "FAIL")


def test_an_error_that_another_path_takes_over_is_none() -> None:
    assert findings("recoverable transport error, dev nvme0c1n1, sector 8 op 0x0:(READ)") == []


def test_drives_of_others_are_degraded_at_most() -> None:
    view = View(devices=frozenset({"md0", "nvme1n1p1", "nvme1n1"}))
    (finding,) = findings("nvme nvme0: Removing after probe failure status: -4", view=view)
    assert (finding.answer, finding.facts["used_by_job"]) == ("DEGRADED", False)
    (finding,) = findings("nvme nvme1: Removing after probe failure status: -4", view=view)
    assert (finding.answer, finding.facts["used_by_job"]) == ("FAIL", True)


def test_old_errors_are_history_and_a_drive_that_is_gone_is_not() -> None:
    view = View(now_s=1e6, window_s=3600)
    assert findings("I/O error, dev nvme0n1, sector 8 op 0x0:(READ)", view=view) == []
    (finding,) = findings("nvme nvme0: Removing after probe failure status: -4", view=view)
    assert finding.answer == "FAIL"
