"""Sleeps that SIGTERM ends at once, without a signal handler that does any work."""

from __future__ import annotations

import contextlib
import os
import select
import signal


class StopSignal:
    """:meth:`install` once in the main thread; :meth:`wait` instead of sleep."""

    def __init__(self) -> None:
        self.is_set = False
        self._read_fd, self._write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poller = select.poll()
        self._poller.register(self._read_fd, select.POLLIN)

    def install(self) -> None:
        """Take SIGTERM, ignore what a terminal sends, let a blocked SIGTERM through."""
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_term)
        for name in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
            signal.signal(name, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def wait(self, seconds: float) -> bool:
        """Sleep; True as soon as SIGTERM has come. Another signal may end the sleep early."""
        # poll takes whole milliseconds: never sleep past the deadline, rather wake once more.
        may_sleep = not self.is_set and seconds > 0
        if may_sleep and self._poller.poll(max(1.0, seconds * 1000.0)):
            self._drain()
        return self.is_set

    def _on_term(self, _signal: int, _frame: object) -> None:
        self.is_set = True
        # The byte that the signal itself wrote may have been taken before this ran.
        with contextlib.suppress(BlockingIOError):
            os.write(self._write_fd, b"\0")

    def _drain(self) -> None:
        try:
            while os.read(self._read_fd, 512):
                pass
        except BlockingIOError:
            return
