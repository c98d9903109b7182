"""One swap of a reservation at a time: a lease in ``<state_dir>/reservations/<name>/swap.lock``.

The file says who holds it (host, pid, boot id) and until when; whoever works renews it. A lease is
free when its time is over, or when its holder is known to be dead: a process of this machine that
is gone, or of an earlier boot of it. Every look and change happens under ``flock`` of a file beside
it, so that two cannot take one lease.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slurm_io.errors import HostError
from slurm_io.host.root_folders import read_file, write_file
from slurm_io.host.same_process import is_alive, starttime_of
from slurm_io.reservation.history import reservation_folder

FILE_NAME = "swap.lock"
_GUARD = "swap.guard"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class LockLost(HostError):
    """Somebody else works on the reservation by now: nothing may be done or written any more."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lease. `started`: start time of the process in clock ticks since boot."""

    host: str
    boot_id: str
    pid: int
    started: int
    until_s: float
    what: str = ""

    @property
    def words(self) -> str:
        """For people."""
        left_s = max(0.0, self.until_s - time.time())
        return f"{self.what or 'a swap'} by pid {self.pid} on {self.host} ({left_s:.0f} s left)"

    def is_same(self, other: Holder | None) -> bool:
        """Whether that is the same process."""
        return other is not None and _who(self) == _who(other)

    def is_dead(self, now_s: float) -> bool:
        """Whether nobody can be working under this lease any more."""
        if now_s >= self.until_s:
            return True
        me = _myself("", 0.0)
        if self.host != me.host:
            return False
        return self.boot_id != me.boot_id or not is_alive(self.pid, self.started)


class Lock:
    """The lease, held; see :func:`held`."""

    def __init__(self, state_dir: str, reservation: str, lease_s: float, what: str) -> None:
        self._place = (state_dir, reservation)
        self._lease_s = lease_s
        self._what = what

    def take(self) -> None:
        """Raises HostError naming the holder."""
        with _guarded(*self._place) as folder:
            found = _read(folder)
            if found is not None and not found.is_dead(time.time()):
                raise HostError(
                    f"reservation {self._place[1]} is worked on already: {found.words}; wait for it"
                )
            self._write(folder)

    def renew(self) -> None:
        """Before every change. Raises LockLost when somebody else holds it by now."""
        with _guarded(*self._place) as folder:
            found = _read(folder)
            if not _myself("", 0.0).is_same(found):
                other = found.words if found is not None else "nobody"
                raise LockLost(
                    f"the lock on reservation {self._place[1]} was lost to {other}: this process "
                    "slept longer than spares.lock_s and stops here"
                )
            self._write(folder)

    def release(self) -> None:
        """Give it back; one that somebody else took stays theirs."""
        with _guarded(*self._place) as folder:
            if _myself("", 0.0).is_same(_read(folder)):
                os.unlink(FILE_NAME, dir_fd=folder)

    def _write(self, folder: int) -> None:
        mine = _myself(self._what, time.time() + self._lease_s)
        write_file(folder, FILE_NAME, json.dumps(asdict(mine)).encode() + b"\n", 0o600)


@contextlib.contextmanager
def held(state_dir: str, reservation: str, lease_s: float, what: str) -> Iterator[Lock]:
    """The lease while the block runs. Raises HostError naming who holds it."""
    lock = Lock(state_dir, reservation, lease_s, what)
    lock.take()
    try:
        yield lock
    finally:
        with contextlib.suppress(HostError, OSError):
            lock.release()


def holder_of(state_dir: str, reservation: str) -> Holder | None:
    """Who works on this reservation now; None = nobody. Raises HostError."""
    with reservation_folder(state_dir, reservation) as folder:
        found = None if folder is None else _read(folder)
    return None if found is None or found.is_dead(time.time()) else found


def _who(holder: Holder) -> tuple[str, str, int, int]:
    return holder.host, holder.boot_id, holder.pid, holder.started


def _myself(what: str, until_s: float) -> Holder:
    pid = os.getpid()
    boot_id = Path(_BOOT_ID).read_text().strip()
    return Holder(socket.gethostname(), boot_id, pid, starttime_of(pid) or 0, until_s, what)


def _read(folder: int) -> Holder | None:
    """A damaged lease is none: only a crash of the machine can leave one."""
    raw = read_file(folder, FILE_NAME, 65536)
    with contextlib.suppress(ValueError, TypeError, KeyError):
        data: dict[str, Any] = json.loads(raw or b"")
        return Holder(
            str(data["host"]),
            str(data["boot_id"]),
            int(data["pid"]),
            int(data["started"]),
            float(data["until_s"]),
            str(data.get("what", "")),
        )
    return None


@contextlib.contextmanager
def _guarded(state_dir: str, reservation: str) -> Iterator[int]:
    with reservation_folder(state_dir, reservation, create=True) as folder:
        assert folder is not None
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        guard = os.open(_GUARD, flags, 0o600, dir_fd=folder)
        try:
            fcntl.flock(guard, fcntl.LOCK_EX)
            yield folder
        finally:
            os.close(guard)
