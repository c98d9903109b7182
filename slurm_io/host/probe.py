"""Runs a function that may hang for ever (statvfs, stat, getxattr) in a killable child.

A process that waits for a dead NFS or Lustre server sleeps where no signal reaches it. Only a
child can be left behind there, so every such call is made in one: :func:`probe` for one answer
now, :class:`Probe` for answers picked up later. No threads, no multiprocessing: a bare fork of a
small process, about a millisecond of CPU.

The child may have become a job's user, who on some machines can then write into its memory
(fs.suid_dumpable = 1). So its answer comes as JSON of limited length and nothing of it is believed:
not marshal or pickle, which are no match for a hostile writer.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import struct
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal

from slurm_io.host.detached import let_go
from slurm_io.records import dataclass

_HEADER = struct.Struct("<I")
LARGEST_ANSWER_BYTES = 16 * 1024 * 1024
_AFTER_KILL_S = 0.5
_AFTER_KILL_IN_D_S = 0.05
_OWN_END_S = 5

Call = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Answer:
    """What came of one call.

    `value` is the function's result when `state` is "ok", as JSON brings it over (tuples become
    lists). `reason` says in words why there is none. `abandoned_pid` is a child that did not die
    when killed because it sleeps in the kernel (state D).
    """

    state: Literal["ok", "error", "timed out"]
    value: Any = None
    reason: str = ""
    error_number: int | None = None
    abandoned_pid: int | None = None


def poll_all(probes: Iterable[Probe]) -> None:
    """Poll several. Those that are late are killed first, so that they die side by side: twenty
    that sleep in the kernel take no longer than one."""
    every = tuple(probes)
    for each in every:
        if each.is_late():
            each.kill()
    for each in every:
        if each.killed_s is not None or not each.is_late():
            each.poll()


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
    another child to the same place. `left_pids`: whom a child that did not answer had started in
    turn; they are killed too, and may not die either. Raises OSError when there is no process or
    descriptor to be had.
    """

    def __init__(
        self, calls: Iterable[Call], timeout_s: float, limit_bytes: int = LARGEST_ANSWER_BYTES
    ) -> None:
        self._calls = tuple(calls)
        self.answers: list[Answer | None] = [None] * len(self._calls)
        self.timeout_s = timeout_s
        self.deadline_s = time.monotonic() + timeout_s
        self.finished = False
        self.abandoned_pid: int | None = None
        self.left_pids: tuple[int, ...] = ()
        self._limit_bytes = limit_bytes
        self.killed_s: float | None = None
        self._slept_in = ""
        self._received = bytearray()
        self._pipe, write_end = os.pipe()
        os.set_blocking(self._pipe, False)
        try:
            self._pid = os.fork()
        except OSError:
            os.close(self._pipe)
            os.close(write_end)
            raise
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
        elif ended and self.killed_s is None:
            self._end("the child ended without an answer")
        elif time.monotonic() >= self.deadline_s:
            self._end(f"no answer within {self.timeout_s:g} s")

    def is_late(self) -> bool:
        """Whether the child's time is over and it has not ended by itself."""
        late = not self.finished and time.monotonic() >= self.deadline_s
        return late and not self._receive()

    def kill(self) -> None:
        """Kill a child that did not answer, and those that it started in turn, and do not wait for
        its end: :meth:`stop` does, or :meth:`poll` when its time is over."""
        if self.killed_s is None:
            from slurm_io.host.late_child import kill_children, sleeping_in

            self._slept_in = sleeping_in(self._pid)
            self.left_pids = kill_children(self._pid)
            self._send_kill()

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
            if not chunk or len(self._received) > self._limit_bytes:
                return True
            self._received += chunk

    def _unpack(self) -> None:
        while len(self._received) >= _HEADER.size:
            (size_bytes,) = _HEADER.unpack_from(self._received)
            end = _HEADER.size + size_bytes
            if len(self._received) < end:
                return
            answer = _answer_in(bytes(self._received[_HEADER.size : end]))
            del self._received[:end]
            if None not in self.answers:
                return
            self.answers[self.answers.index(None)] = answer

    def _end(self, reason: str) -> None:
        self.finished = True
        os.close(self._pipe)
        timed_out = reason.startswith("no answer")
        if reason:
            self.kill()
        else:
            self._send_kill()
        if timed_out and self._slept_in:
            reason += f"; it slept in {self._slept_in}"
        self._see_it_die()
        if None in self.answers:
            self.answers[self.answers.index(None)] = Answer(
                "timed out" if timed_out else "error",
                reason=reason + self._where_it_sleeps(),
                abandoned_pid=self.abandoned_pid,
            )

    def _send_kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self.killed_s = time.monotonic()

    def _see_it_die(self) -> None:
        while not _reaped(self._pid):
            passed_s = time.monotonic() - (self.killed_s or 0.0)
            # On a busy node a killed child takes its time to die; only one in state D never may.
            if passed_s >= _AFTER_KILL_IN_D_S and (passed_s >= _AFTER_KILL_S or self._is_in_d()):
                self.abandoned_pid = self._pid
                return
            time.sleep(0.001)

    def _is_in_d(self) -> bool:
        from slurm_io.host.late_child import sleeps_in_kernel

        return sleeps_in_kernel(self._pid)

    def _where_it_sleeps(self) -> str:
        if self.abandoned_pid is None:
            return ""
        from slurm_io.host.late_child import sleeping_in

        function = sleeping_in(self.abandoned_pid)
        sleeps = f" in {function}" if function else ""
        return f"; child {self.abandoned_pid} sleeps{sleeps} and was left behind"


def _answer_in(message: bytes) -> Answer:
    """What a child says of one call; perhaps a hostile one."""
    state = reason = number = value = None
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        state, value, reason, number = json.loads(message)
    is_number = number is None or type(number) is int
    if state not in ("ok", "error") or not isinstance(reason, str) or not is_number:
        return Answer("error", reason="the child's answer cannot be read")
    return Answer(state, value, reason, number)


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _child(calls: tuple[Call, ...], write_end: int, timeout_s: float) -> None:
    """The child's whole life: let go of everything inherited, call, answer, exit."""
    try:
        let_go(write_end)
        # Should the parent be killed, the child must not outlive it for long.
        signal.alarm(int(timeout_s) + _OWN_END_S)
        for function, arguments in calls:
            message = _outcome(function, arguments)
            _write_all(write_end, _HEADER.pack(len(message)) + message)
    finally:
        os._exit(0)


def _outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    try:
        return json.dumps(("ok", function(*arguments), "", None)).encode()
    except OSError as error:
        said: tuple[str, int | None] = (error.strerror or str(error), error.errno)
    except Exception as error:  # noqa: BLE001 - the answer must reach the parent whatever it is
        said = (f"{type(error).__name__}: {error}", None)
    return json.dumps(("error", None, *said)).encode()


def _write_all(descriptor: int, message: bytes) -> None:
    while message:
        message = message[os.write(descriptor, message) :]
