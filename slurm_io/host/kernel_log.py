"""The kernel's own log: records of /dev/kmsg, and the same lines as text in all their forms.

/dev/kmsg gives one record per read, ``priority,sequence,microseconds,flags[,...];message``, then
perhaps lines `` KEY=value``. What a record holds is what one printk said: control characters in it
are escaped, so a line break that a user smuggled into a message (a mount option, a process name)
cannot begin a record of its own. In dmesg's and syslog's text it can begin a *line*: hence the
checks read the device, and text is for what people hand over. User space can write to the device
only under another facility than the kernel's, and only as root.

The time of a record counts from boot. It is the kernel's own clock, which may part from the wall
clock by minutes over months, and it is when the message was said: a syslog daemon's date in front
of it is when the daemon woke up.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from slurm_io.errors import HostError

KMSG = "/dev/kmsg"
_RECORD_LIMIT_BYTES = 32768  # the kernel's own limit is 8 KiB before escapes
_FILE_LIMIT_BYTES = 64 * 1024 * 1024
_LONGEST_MESSAGE = 4096
_FACILITY_BITS = 3
_LOOK_AT_CLOCK_EVERY = 256
_LINE_BREAK = "\\x0a"

Clock = Literal["boot", "wall", "none"]


class KernelLine(NamedTuple):
    """One message. `at_s` is seconds since boot, or with `clock` "wall" seconds of a calendar
    whose zero means nothing (only differences count); None where the text carries no time."""

    message: str
    at_s: float | None
    clock: Clock = "boot"


class KernelLog(NamedTuple):
    """What was found of the log.

    `complete`: it reaches back to boot. `first_s`, `last_s`: times of the oldest and newest record
    there is, wanted or not. `records`: how many were looked at. `unread`: why reading ended early,
    "" when it did not. `gaps`: records that were overwritten while reading.
    """

    lines: tuple[KernelLine, ...]
    complete: bool
    first_s: float | None
    last_s: float | None
    records: int
    unread: str = ""
    gaps: int = 0


def read_kernel_log(
    path: str = KMSG,
    starts: tuple[str, ...] = (),
    deadline_s: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> KernelLog:
    """The kernel's records whose message starts with one of `starts` (all of them by default).

    Never waits for news. `deadline_s` is on time.monotonic's clock. A plain file with records in
    it is read as well. Raises HostError when the log cannot be opened or read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        gathered = _Gathered(starts)
        if stat.S_ISCHR(os.fstat(descriptor).st_mode):
            _read_device(descriptor, gathered, deadline_s, clock)
        else:
            gathered.take_all(_records_of_file(_read_file(descriptor, path)))
        return gathered.log()
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror or error}") from error
    finally:
        os.close(descriptor)


def parse_record(record: bytes) -> KernelLine | None:
    """One record of /dev/kmsg; None when it is none or was not written by the kernel."""
    head, separator, message = record.partition(b";")
    time_us = _kernel_time_us(head) if separator else None
    return None if time_us is None else KernelLine(_first_line(message), time_us / 1e6)


def parse_log_text(text: str) -> tuple[KernelLine, ...]:
    """The kernel's lines in text: dmesg with any of its options, journal, syslog, /dev/kmsg.

    Lines of other facilities (``<13>``, ``user :notice:``, ``systemd[1]:``) are left out.
    """
    from slurm_io.host.kernel_log_text import parse_line  # patterns that no prolog needs

    lines = (parse_line(line) for line in text.split("\n"))
    return tuple(line for line in lines if line is not None)


class _Gathered:
    """Collects wanted records and what must be known of all others."""

    def __init__(self, starts: tuple[str, ...]) -> None:
        self._starts = tuple(start.encode() for start in starts) or (b"",)
        self._wanted: list[bytes] = []
        self._first: bytes | None = None
        self._last: bytes | None = None
        self.records = 0
        self.gaps = 0
        self.unread = ""

    def take(self, record: bytes) -> None:
        # Every record of the node passes here: nothing but the prefix is looked at.
        self.records += 1
        if self._first is None:
            self._first = record
        self._last = record
        position = record.find(b";") + 1
        if position and record.startswith(self._starts, position):
            self._wanted.append(record)

    def take_all(self, records: Iterable[bytes]) -> None:
        for record in records:
            self.take(record)

    def log(self) -> KernelLog:
        lines = (parse_record(record) for record in self._wanted)
        return KernelLog(
            lines=tuple(line for line in lines if line is not None),
            complete=not self.records or _number_at(self._first, 1) == 0,
            first_s=_seconds(self._first),
            last_s=_seconds(self._last),
            records=self.records,
            unread=self.unread,
            gaps=self.gaps,
        )


def _read_device(
    descriptor: int, gathered: _Gathered, deadline_s: float | None, clock: Callable[[], float]
) -> None:
    read = os.read
    while True:
        if (
            deadline_s is not None
            and gathered.records % _LOOK_AT_CLOCK_EVERY == 0
            and clock() >= deadline_s
        ):
            gathered.unread = "no time left"
            return
        try:
            record = read(descriptor, _RECORD_LIMIT_BYTES)
        except BlockingIOError:
            return
        except BrokenPipeError:  # overwritten under our hands; the next read goes on behind it
            gathered.gaps += 1
            continue
        if not record:
            return
        gathered.take(record)


def _read_file(descriptor: int, path: str) -> bytes:
    if os.fstat(descriptor).st_size > _FILE_LIMIT_BYTES:
        raise HostError(f"{path} holds more than {_FILE_LIMIT_BYTES} bytes: not read")
    chunks = []
    while chunk := os.read(descriptor, 1 << 20):
        chunks.append(chunk)
    return b"".join(chunks)


def _records_of_file(content: bytes) -> Iterator[bytes]:
    for line in content.split(b"\n"):
        if line and not line.startswith(b" "):  # a blank begins a KEY=value line of the one before
            yield line


def _first_line(message: bytes) -> str:
    # One printk may say several lines. Only the first begins where the kernel's own words begin.
    text = message.partition(b"\n")[0].decode("utf-8", "replace")
    return text.partition(_LINE_BREAK)[0][:_LONGEST_MESSAGE]


def _kernel_time_us(head: bytes) -> int | None:
    fields = head.split(b",")
    if len(fields) < 4 or not all(field.isdigit() for field in fields[:3]):
        return None
    if int(fields[0]) >> _FACILITY_BITS:
        return None  # written by user space
    return int(fields[2])


def _seconds(record: bytes | None) -> float | None:
    number = _number_at(record, 2)
    return None if number is None else number / 1e6


def _number_at(record: bytes | None, position: int) -> int | None:
    fields = record.partition(b";")[0].split(b",") if record else []
    if len(fields) <= position or not fields[position].isdigit():
        return None
    return int(fields[position])
