"""Runs a function that may hang for ever (statvfs, stat, getxattr) in a killable child.

A process that waits for a dead NFS or Lustre server sleeps where no signal reaches it. Only a
child can be left behind there, so every such call is made in one: :func:`probe` for one answer
now, :class:`Probe` for answers picked up later. No threads, no multiprocessing: a bare fork of a
small process, about a millisecond of CPU.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

_HEADER = struct.Struct("<I")
_DESCRIPTORS = "/proc/self/fd/"
_LARGEST_ANSWER_BYTES = 16 * 1024 * 1024
_AFTER_KILL_S = 0.5
_AFTER_KILL_IN_D_S = 0.05
_OWN_END_S = 5

Call = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Answer:
    """What came of one call.

    `value` is the function's result when `state` is "ok" (built of None, numbers, strings, bytes,
    tuples, lists, dicts). `reason` says in words why there is none. `abandoned_pid` is a child that
    did not die when killed because it sleeps in the kernel (state D).
    """

    state: Literal["ok", "error", "timed out"]
    value: Any = None
    reason: str = ""
    error_number: int | None = None
    abandoned_pid: int | None = None


def probe(function: Callable[..., Any], *arguments: Any, timeout_s: float) -> Answer:
    """Call ``function(*arguments)`` in a child and wait at most `timeout_s` for its answer."""
    running = Probe([(function, arguments)], timeout_s)
    while not running.finished:
        running.wait(max(0.0, running.deadline_s - time.monotonic()))
        running.poll()
    return running.answers[0] or Answer("timed out", reason="no answer")


class Probe:
    """Calls made one after the other in one child, whose answers are picked up later.

    `answers` has one place per call, None until :meth:`poll` sees its answer. A call that passes
    the deadline ends the child: it reads "timed out", and the calls behind it stay None. `finished`
    says that nothing more will come. While `abandoned_pid` lives (:meth:`still_stuck`) do not send
    another child to the same place.
    """

    def __init__(self, calls: Iterable[Call], timeout_s: float) -> None:
        self._calls = tuple(calls)
        self.answers: list[Answer | None] = [None] * len(self._calls)
        self.timeout_s = timeout_s
        self.deadline_s = time.monotonic() + timeout_s
        self.finished = False
        self.abandoned_pid: int | None = None
        self._received = bytearray()
        self._pipe, write_end = os.pipe()
        os.set_blocking(self._pipe, False)
        self._pid = os.fork()
        if self._pid == 0:
            _child(self._calls, write_end, timeout_s)
        os.close(write_end)

    def wait(self, timeout_s: float) -> None:
        """Sleep until the child has something to say, at most `timeout_s`."""
        if not self.finished:
            poller = select.poll()
            poller.register(self._pipe, select.POLLIN)
            poller.poll(timeout_s * 1000)

    def fileno(self) -> int:
        """What to wait on beside other probes (select, poll); -1 when nothing more will come."""
        return -1 if self.finished else self._pipe

    def poll(self) -> None:
        """Take what has arrived. Blocks for a moment only when a child had to be killed: 0.05 s
        when it sleeps in the kernel, at most 0.5 s when the node is too busy to let it die."""
        if self.finished:
            return
        ended = self._receive()
        self._unpack()
        if self.answers and self.answers[-1] is not None:
            self._end("")
        elif ended:
            self._end("the child ended without an answer")
        elif time.monotonic() >= self.deadline_s:
            self._end(f"no answer within {self.timeout_s:g} s")

    def stop(self) -> None:
        """Kill the child and take no more answers."""
        if not self.finished:
            self._end("stopped")

    def still_stuck(self) -> bool:
        """True while a child that was killed has not died yet."""
        if self.abandoned_pid is not None and _reaped(self.abandoned_pid):
            self.abandoned_pid = None
        return self.abandoned_pid is not None

    def _receive(self) -> bool:
        """Append what the pipe holds; True at its end."""
        while True:
            try:
                chunk = os.read(self._pipe, 65536)
            except BlockingIOError:
                return False
            if not chunk or len(self._received) > _LARGEST_ANSWER_BYTES:
                return True
            self._received += chunk

    def _unpack(self) -> None:
        while len(self._received) >= _HEADER.size:
            (size_bytes,) = _HEADER.unpack_from(self._received)
            end = _HEADER.size + size_bytes
            if len(self._received) < end:
                return
            state, value, reason, number = marshal.loads(self._received[_HEADER.size : end])
            del self._received[:end]
            self.answers[self.answers.index(None)] = Answer(state, value, reason, number)

    def _end(self, reason: str) -> None:
        self.finished = True
        os.close(self._pipe)
        timed_out = reason.startswith("no answer")
        if timed_out and (function := _sleeping_in(self._pid)):
            reason += f"; it slept in {function}"
        self._kill()
        if None in self.answers:
            self.answers[self.answers.index(None)] = Answer(
                "timed out" if timed_out else "error",
                reason=reason + self._where_it_sleeps(),
                abandoned_pid=self.abandoned_pid,
            )

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        killed_s = time.monotonic()
        while not _reaped(self._pid):
            passed_s = time.monotonic() - killed_s
            # On a busy node a killed child takes its time to die; only one in state D never may.
            if passed_s >= (_AFTER_KILL_IN_D_S if _sleeps_in_kernel(self._pid) else _AFTER_KILL_S):
                self.abandoned_pid = self._pid
                return
            time.sleep(0.001)

    def _where_it_sleeps(self) -> str:
        if self.abandoned_pid is None:
            return ""
        function = _sleeping_in(self.abandoned_pid)
        sleeps = f" in {function}" if function else ""
        return f"; child {self.abandoned_pid} sleeps{sleeps} and was left behind"


def _sleeping_in(pid: int) -> str:
    """The kernel function a process sleeps in; "" when it runs or nobody may know."""
    try:
        return Path(f"/proc/{pid}/wchan").read_text().strip("0\n")
    except OSError:
        return ""


def _sleeps_in_kernel(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"D"
    except (OSError, IndexError):
        return False


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _child(calls: tuple[Call, ...], write_end: int, timeout_s: float) -> None:
    """The child's whole life: let go of everything inherited, call, answer, exit."""
    try:
        _let_go(write_end)
        # Should the parent be killed, the child must not outlive it for long.
        signal.alarm(int(timeout_s) + _OWN_END_S)
        for function, arguments in calls:
            message = marshal.dumps(_outcome(function, arguments))
            _write_all(write_end, _HEADER.pack(len(message)) + message)
    finally:
        os._exit(0)


def _outcome(
    function: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[str, Any, str, int | None]:
    try:
        value = function(*arguments)
        marshal.dumps(value)
        return ("ok", value, "", None)
    except OSError as error:
        return ("error", None, error.strerror or str(error), error.errno)
    except Exception as error:  # noqa: BLE001 - the answer must reach the parent whatever it is
        return ("error", None, f"{type(error).__name__}: {error}", None)


def _let_go(write_end: int) -> None:
    """A child left behind must hold neither the caller's descriptors (a prolog's stdout would keep
    slurmd waiting), nor its terminal, nor its folder, nor its signal handlers. Descriptors through
    which modules are found stay: the call may have to import something."""
    os.setsid()
    os.chdir("/")
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    kept = {write_end, *_import_descriptors()}
    for descriptor in _open_descriptors():
        if descriptor not in kept:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _import_descriptors() -> Iterable[int]:
    """N of each ``/proc/self/fd/N`` on the module path (prolog/check_child.py puts them there)."""
    numbers = (
        path.removeprefix(_DESCRIPTORS) for path in sys.path if path.startswith(_DESCRIPTORS)
    )
    return [int(number) for number in numbers if number.isdecimal()]


def _open_descriptors() -> Iterable[int]:
    # Not os.closerange: where the C library lacks close_range (before glibc 2.34) it tries every
    # number up to the limit, which can be a million.
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208
    except OSError:
        return range(1024)


def _write_all(descriptor: int, message: bytes) -> None:
    while message:
        message = message[os.write(descriptor, message) :]
