"""What is looked at only when a child did not answer: where it sleeps, and whom it left behind."""

from __future__ import annotations

import contextlib
import os
import signal


def sleeping_in(pid: int) -> str:
    """The kernel function a process sleeps in; "" when it runs or nobody may know."""
    try:
        with open(f"/proc/{pid}/wchan") as file:
            return file.read().strip("0\n")
    except OSError:
        return ""


def sleeps_in_kernel(pid: int) -> bool:
    """Whether a process is in state D, deaf to signals."""
    try:
        return _stat_words(pid)[0] == b"D"
    except (OSError, IndexError):
        return False


def children_of(pid: int) -> tuple[int, ...]:
    """Children of a process; () where the kernel does not tell (CONFIG_PROC_CHILDREN)."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/task/{pid}/children") as file:
        return tuple(int(word) for word in file.read(4096).split())
    return ()


def kill_children(pid: int) -> tuple[int, ...]:
    """Kill the children of our child, whom nobody would ever end; who they were.

    A descriptor pins each before its parent is looked at, so nobody else is hit.
    """
    return tuple(child for child in children_of(pid) if _kill_child(child, pid))


def _kill_child(child: int, parent: int) -> bool:
    with contextlib.suppress(OSError, IndexError, AttributeError):  # kernel or Python without pidfd
        descriptor = os.pidfd_open(child)
        try:
            if _stat_words(child)[1] == b"%d" % parent:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return True
        finally:
            os.close(descriptor)
    return False


def _stat_words(pid: int) -> list[bytes]:
    """Fields of stat from the third on: state, parent, …"""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()
