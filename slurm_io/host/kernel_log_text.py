"""One line of kernel log text: what stands before the message, in all forms that are about.

::

    [  150.539498] nvme nvme0: ...                      dmesg
    [  150.539498][ T1018] nvme nvme0: ...              with CONFIG_PRINTK_CALLER
    [Sun Sep  1 19:13:30 2024] [  T423] nvme nvme0: ... dmesg -T
    <4>[  150.539498] ...                               dmesg -r
    kern  :warn  : [  150.539498] ...                   dmesg -x
    2025-01-21T04:41:44,285060+00:00 nvme nvme0: ...    dmesg --time-format iso
    Sep 12 12:36:45 [kernel] [  150.539498][ T1018] ... metalog
    Sep 12 12:36:45 node7 kernel: [  150.539498] ...    syslog
    2024-09-12T12:36:45.1+02:00 node7 kernel: ...       rsyslog
    6,339,5140900,-,caller=T1;nvme nvme0: ...           /dev/kmsg

The kernel's time in brackets wins over any date before it.
"""

from __future__ import annotations

import re
from datetime import datetime

from slurm_io.host.kernel_log import KernelLine, parse_record

_RECORD = re.compile(r"\d{1,4},\d{1,20},\d{1,20},[^;]{0,80};")
_RAW_PRIORITY = re.compile(r"<(\d{1,4})>")
_DECODED_PRIORITY = re.compile(r"([a-z0-9]+) *:[a-z]+ *: ?")
_BOOT_TIME = re.compile(r"\[ *(\d{1,12}\.\d{1,9})\] ?")
_CALENDAR = re.compile(r"\[([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4})\] ?")
_CALLER = re.compile(r"\[ *[TC]\d+\] ?")
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(?:Z|[+-]\d\d:?\d\d)? ")
_SYSLOG = re.compile(r"([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)(?:\.\d+)? ")
_SENDER = re.compile(r"(?:[\w.:-]{1,255} )?(?:kernel: |\[kernel\] )")
_OTHER_SENDER = re.compile(r"(?:[\w.:-]{1,255} )?[\w./-]{1,64}(?:\[\d+\])?: ")
_LEAP_YEAR = "2000 "  # a syslog date has no year; one that knows 29 February


def parse_line(line: str) -> KernelLine | None:
    """One line, None when it is empty or another program's."""
    line = line.rstrip("\r\n")
    if not line.strip() or line.startswith(" "):
        return None
    if _RECORD.match(line):
        return parse_record(line.encode("utf-8", "surrogateescape"))
    rest = _without_priority(line)
    if rest is None:
        return None
    rest, wall_s, from_kernel = _without_date(rest)
    return _line(rest, wall_s) if from_kernel else None


def _without_priority(line: str) -> str | None:
    """The line behind its priority; None when the facility is not the kernel's."""
    if found := _RAW_PRIORITY.match(line):
        return line[found.end() :] if int(found[1]) < 8 else None
    if found := _DECODED_PRIORITY.match(line):
        return line[found.end() :] if found[1] == "kern" else None
    return line


def _without_date(line: str) -> tuple[str, float | None, bool]:
    """What follows a syslog or ISO date, that date, and whether it is the kernel that speaks."""
    wall_s: float | None = None
    if found := _ISO.match(line):
        wall_s = _iso_s(found[1], found[2])
    elif found := _SYSLOG.match(line):
        wall_s = _date_s(_LEAP_YEAR + found[1], "%Y %b %d %H:%M:%S")
    if found is None:
        sender = _SENDER.match(line)
        return (line[sender.end() :] if sender else line), None, True
    rest = line[found.end() :]
    if sender := _SENDER.match(rest):
        return rest[sender.end() :], wall_s, True
    # dmesg --time-format iso has no sender, syslog always has one.
    is_syslog = _OTHER_SENDER.match(rest) and found.re is _SYSLOG
    return rest, wall_s, not is_syslog


def _line(rest: str, wall_s: float | None) -> KernelLine | None:
    at_s: float | None = None
    if found := _BOOT_TIME.match(rest):
        at_s, rest = float(found[1]), rest[found.end() :]
    elif found := _CALENDAR.match(rest):
        wall_s, rest = _date_s(found[1], "%a %b %d %H:%M:%S %Y"), rest[found.end() :]
    if found := _CALLER.match(rest):
        rest = rest[found.end() :]
    message = rest.lstrip(" ")
    if not message:
        return None
    if at_s is not None:
        return KernelLine(message, at_s)
    return KernelLine(message, wall_s, "none" if wall_s is None else "wall")


def _iso_s(text: str, fraction: str | None) -> float | None:
    whole_s = _date_s(text, "%Y-%m-%dT%H:%M:%S")
    return None if whole_s is None else whole_s + float(f"0.{fraction or 0}")


def _date_s(text: str, form: str) -> float | None:
    try:
        return (datetime.strptime(text, form) - datetime(1970, 1, 1)).total_seconds()
    except ValueError:
        return None
