"""The connections of a serving daemon: each an rsync that has its client on standard input."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_io.host.run import TOOL_FOLDERS

_SO_MAX_PACING_RATE = 47  # Linux; the socket module has no name for it


@dataclass
class _Guest:
    """`known`: its client has shown that it has the secret. `connection`: ours, to slow it."""

    process: subprocess.Popen[bytes]
    connection: socket.socket
    since_s: float
    known: bool = False


class Guests:
    """At most `most` at once; who does not show the secret within `greet_s` must go.

    `limit_bytes_s` (0 = none) is shared by those who are here, by the kernel's pacing of their
    connections (Linux 4.13): rsync's own limit could not change while it runs.
    """

    def __init__(
        self, argv: Sequence[str], most: int, greet_s: float, limit_bytes_s: int = 0
    ) -> None:
        self._argv = list(argv)
        self._most = most
        self._greet_s = greet_s
        self._limit_bytes_s = limit_bytes_s
        self._guests: list[_Guest] = []

    @property
    def is_full(self) -> bool:
        """Whether one more would be too many."""
        self._forget_those_who_left()
        return len(self._guests) >= self._most

    def let_in(self, connection: socket.socket) -> None:
        """Start an rsync on it, as inetd would. Raises OSError."""
        process = subprocess.Popen(
            self._argv,
            stdin=connection.fileno(),
            stdout=connection.fileno(),
            stderr=subprocess.DEVNULL,
            env={"PATH": ":".join(TOOL_FOLDERS), "LC_ALL": "C"},
            cwd="/",
            start_new_session=True,
        )
        self._guests.append(_Guest(process, connection.dup(), time.monotonic()))
        self._share_limit()

    def look(self) -> bool:
        """Show the silent ones the door; whether somebody is here who knows the secret."""
        for guest in self._guests:
            guest.known = guest.known or _is_inside(guest.process.pid)
            if not guest.known and time.monotonic() - guest.since_s > self._greet_s:
                _kill(guest.process)
        self._forget_those_who_left()
        return any(guest.known for guest in self._guests)

    def end(self) -> None:
        """All go."""
        for guest in self._guests:
            _kill(guest.process)
        self._forget_those_who_left()

    def _forget_those_who_left(self) -> None:
        gone = [guest for guest in self._guests if guest.process.poll() is not None]
        for guest in gone:
            self._guests.remove(guest)
            guest.connection.close()
        if gone:
            self._share_limit()

    def _share_limit(self) -> None:
        if self._limit_bytes_s and self._guests:
            rate = max(1, self._limit_bytes_s // len(self._guests))
            for guest in self._guests:
                guest.connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, rate)


def _is_inside(pid: int) -> bool:
    """Whether an rsync has let its client in: then it is in the dataset's folder, not in /."""
    try:
        return os.readlink(f"/proc/{pid}/cwd") != "/"
    except OSError:
        return False


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
