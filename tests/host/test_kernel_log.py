"""Records of /dev/kmsg: what the kernel said, and nothing that others said or smuggled in."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.errors import HostError
from slurm_io.host import kernel_log
from slurm_io.host.kernel_log import KernelLine, parse_log_text, parse_record, read_kernel_log


def test_a_record_of_the_kernel() -> None:
    line = parse_record(b"4,339,5140900,-,caller=T1;nvme nvme0: I/O 1 QID 2 timeout, aborting\n")
    assert line == KernelLine("nvme nvme0: I/O 1 QID 2 timeout, aborting", 5.1409)


@pytest.mark.parametrize(
    "record",
    [
        b"12,339,5140900,-;nvme nvme0: I/O 1 QID 2 timeout, aborting",  # root's own echo to kmsg
        b"30,339,5140900,-;systemd[1]: Started",
        b"4,339,5140900;too few fields",
        b"x,339,5140900,-;no number",
        b"4,339,5140900,-",
        b"",
    ],
)
def test_what_the_kernel_did_not_say_is_nothing(record: bytes) -> None:
    assert parse_record(record) is None


def test_a_line_break_that_a_user_smuggled_in_begins_no_message() -> None:
    # An unknown mount option is printed as the user wrote it; a user namespace is enough for that.
    record = b"3,9,100,-;tmpfs: Unknown parameter 'x\\x0anfs: server a not responding, timed out'"
    line = parse_record(record)
    assert line is not None and line.message == "tmpfs: Unknown parameter 'x"


def log_file(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "kmsg"
    path.write_bytes(content)
    return str(path)


RECORDS = (
    b"6,0,0,-;Linux version 6.1\n"
    b"6,1,100000,-;nvme nvme0: 1/0/0 default/read/poll queues\n"
    b" SUBSYSTEM=nvme\n DEVICE=+nvme:nvme0\n"
    b"6,2,2500000,-;random: crng init done\n"
)


def test_only_wanted_records_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    log = read_kernel_log(log_file(tmp_path, RECORDS), ("nvme",))
    assert [line.message for line in log.lines] == ["nvme nvme0: 1/0/0 default/read/poll queues"]
    assert (log.records, log.first_s, log.last_s, log.complete) == (3, 0.0, 2.5, True)


def test_a_log_that_was_overwritten_says_from_when_it_is(tmp_path: Path) -> None:
    log = read_kernel_log(log_file(tmp_path, b"6,7001,3600000000,-;usb 1-1: new device\n"))
    assert (log.complete, log.first_s) == (False, 3600.0)


def test_an_empty_log_is_a_whole_one(tmp_path: Path) -> None:
    assert read_kernel_log(log_file(tmp_path, b"")).complete


def test_a_log_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot read .*kmsg: No such file"):
        read_kernel_log(str(tmp_path / "kmsg"))


class Device:
    """Answers reads as /dev/kmsg does: one record each, then nothing more for now."""

    def __init__(self, *answers: bytes | int) -> None:
        self._answers = list(answers)

    def read(self, _descriptor: int, _size: int) -> bytes:
        if not self._answers:
            raise BlockingIOError(errno.EAGAIN, "again")
        answer = self._answers.pop(0)
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return answer


def read_device(monkeypatch: pytest.MonkeyPatch, device: Device, **more: object) -> object:
    monkeypatch.setattr(os, "read", device.read)
    # Any character device: what it says is the fake's affair.
    return read_kernel_log("/dev/null", **more)  # type: ignore[arg-type]


def test_records_overwritten_under_our_hands_are_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(b"6,1,1,-;a\n", errno.EPIPE, b"6,9,2,-;b\n")
    log = read_device(monkeypatch, device)
    assert (log.gaps, log.records) == (1, 2)  # type: ignore[attr-defined]


def test_no_right_to_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HostError, match="Operation not permitted"):
        read_device(monkeypatch, Device(errno.EPERM))


def test_reading_ends_at_the_deadline_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(*[b"6,1,1,-;a\n"] * 2000)
    times = iter([0.0, 0.5, 5.0])
    log = read_device(monkeypatch, device, deadline_s=1.0, clock=lambda: next(times))
    assert (log.unread, log.records) == ("no time left", 512)  # type: ignore[attr-defined]


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="/dev/kmsg cannot be read here")
def test_the_real_log_is_read_to_its_end_without_waiting() -> None:
    log = read_kernel_log(deadline_s=None)
    assert log.unread == ""
    assert all(line.at_s is not None for line in log.lines)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_record_is_parsed_or_refused(record: bytes) -> None:
    line = parse_record(record)
    assert line is None or "\n" not in line.message


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_any_file_is_read(content: bytes) -> None:
    gathered = kernel_log._Gathered(())
    gathered.take_all(kernel_log._records_of_file(content))
    assert gathered.log().records >= len(gathered.log().lines)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_parsed(text: str) -> None:
    for line in parse_log_text(text):
        assert line.message
