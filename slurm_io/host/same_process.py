"""A process by (pid, starttime), and a signal that cannot hit a stranger who got the pid later."""

from __future__ import annotations

import contextlib
import os
import signal


def starttime_of(pid: int, proc_root: str = "/proc") -> int | None:
    """Field 22 of stat, in clock ticks since boot; None when there is no such process."""
    try:
        with open(f"{proc_root}/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        return None if words[0] == b"Z" else int(words[19])
    except (OSError, IndexError, ValueError):
        return None


def is_alive(pid: int, starttime: int) -> bool:
    """Whether exactly this process still runs (a zombie does not)."""
    return starttime_of(pid) == starttime


def send_signal(pid: int, starttime: int, signum: signal.Signals) -> bool:
    """Signal exactly this process; False when it is gone.

    The descriptor pins the process before its start time is compared, so no other can slip in.
    """
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if starttime_of(pid) == starttime:
                signal.pidfd_send_signal(descriptor, signum)
                return True
        finally:
            os.close(descriptor)
    return False
