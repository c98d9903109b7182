"""CPU time of the whole node from /proc/stat::

cpu  10132153 290696 3084719 46828483 16683 0 25195 0 175628 0
"""

from __future__ import annotations

from typing import NamedTuple

from slurm_io.host.fields import number_after

_COLUMNS = 8  # user nice system idle iowait irq softirq steal; guest time is part of user


class CpuShares(NamedTuple):
    """Shares of all CPUs' time in an interval; None where they cannot be told."""

    user: float | None
    system: float | None
    iowait: float | None
    steal: float | None


def cpu_ticks(stat: bytes) -> tuple[int, ...] | None:
    """The first eight columns of the ``cpu`` line in clock ticks; None when it is not there."""
    fields = stat[: stat.find(b"\n")].split()
    if len(fields) <= _COLUMNS or fields[0] != b"cpu":
        return None
    return tuple(map(int, fields[1 : _COLUMNS + 1]))


def cpu_shares(before: tuple[int, ...] | None, now: tuple[int, ...] | None) -> CpuShares:
    """Shares between two readings. A column that went back (iowait may) is None."""
    if before is None or now is None:
        return CpuShares(None, None, None, None)
    user, nice, system, idle, iowait, irq, softirq, steal = (
        new - old for new, old in zip(now, before, strict=True)
    )
    total = user + nice + system + idle + iowait + irq + softirq + steal

    def share(ticks: int) -> float | None:
        return ticks / total if total > 0 and 0 <= ticks <= total else None

    return CpuShares(share(user + nice), share(system + irq + softirq), share(iowait), share(steal))


def tasks_running_and_blocked(stat: bytes) -> tuple[int | None, int | None]:
    """Runnable tasks and tasks blocked on I/O at the moment of the reading."""
    return number_after(stat, b"procs_running "), number_after(stat, b"procs_blocked ")
