"""Does a killed copy's child still write into a room? Told by a lock that its children inherit.

rsync is two processes; when the first is killed, the second may write on for seconds, into a file
that the next run takes up. Whoever writes holds the room's folder locked, shared; who starts anew
waits until he could have it alone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time

_POLL_S = 0.05
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL)


class Writers:
    """The rooms of one engine. `patience_s`: how long to wait for an earlier run's children."""

    def __init__(self, patience_s: float = 20.0) -> None:
        self._patience_s = patience_s
        self._rooms: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()

    def descriptor(self, room: str) -> int:
        """What a child that writes into `room` must hold open; ours until :meth:`close`.

        Raises TimeoutError while somebody of an earlier run still writes there, OSError.
        """
        with self._lock:
            fd = os.open(room, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            facts = os.fstat(fd)
            key = facts.st_dev, facts.st_ino
            if key in self._rooms:
                os.close(fd)
                return self._rooms[key]
            try:
                self._settle(fd)
            except OSError:
                os.close(fd)
                raise
            self._rooms[key] = fd
            return fd

    def close(self) -> None:
        """Let go of all rooms."""
        with self._lock:
            for fd in self._rooms.values():
                os.close(fd)
            self._rooms.clear()

    def _settle(self, fd: int) -> None:
        end_s = time.monotonic() + self._patience_s
        while not _taken_alone(fd):
            if time.monotonic() > end_s:
                raise TimeoutError("a child of an earlier copy still writes here")
            time.sleep(_POLL_S)
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_SH)


def _taken_alone(fd: int) -> bool:
    """Whether nobody else has it; True where the file system knows no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True
