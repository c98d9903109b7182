"""/proc/PID/stat (or task/TID/stat): one line, the command name in parentheses may hold anything.

Sample: ``26231 (vim) R 5392 7446 5392 34835 7446 4218880 32533 309516 26 82 1677 44 158 99 20 …``.
Times are clock ticks (sysconf SC_CLK_TCK), sizes pages.
"""

from __future__ import annotations

from typing import NamedTuple


class PidStat(NamedTuple):
    """The fields somebody here needs. `starttime` (ticks since boot) and pid name a process;
    `arg_start` (address of its command line; 0: not for this user) changes when it executes another
    program."""

    comm: str
    state: str
    ppid: int
    minflt: int
    majflt: int
    utime_ticks: int
    stime_ticks: int
    num_threads: int
    starttime: int
    rss_pages: int
    blkio_delay_ticks: int
    arg_start: int


def parse_stat(raw: bytes) -> PidStat | None:
    """The line, or None when it is cut or empty (the process ended while it was read)."""
    start, end = raw.find(b"("), raw.rfind(b")")
    fields = raw[end + 2 :].split()
    if start < 0 or end < start or len(fields) < 40:
        return None
    try:
        return PidStat(
            raw[start + 1 : end].decode("utf-8", "replace"), fields[0].decode(), int(fields[1]),
            int(fields[7]), int(fields[9]), int(fields[11]), int(fields[12]), int(fields[17]),
            int(fields[19]), int(fields[21]), int(fields[39]),
            int(fields[45]) if len(fields) > 45 else 0,
        )  # fmt: skip
    except ValueError:
        return None
