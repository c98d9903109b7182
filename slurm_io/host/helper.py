"""A child that answers again and again, for calls that may hang for ever inside a driver.

:mod:`slurm_io.host.probe` forks for each few calls. Where the first call costs seconds (opening a
GPU's driver) one child stays instead. It is never waited for: it is asked at one tick and answers
by a later one, it is killed when it is late, and left behind when it sleeps in the kernel and does
not die. It ends with its parent.
"""

from __future__ import annotations

import contextlib
import gc
import json
import mmap
import os
import signal
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from slurm_io.host.detached import let_go

_HEADER = struct.Struct("<I")
_LIMIT_BYTES = 4 * 1024 * 1024
_QUESTION = b"?"
_FAILED = 70
_LONGEST_NAME = 15
_PR_SET_PDEATHSIG = 1


class End(NamedTuple):
    """How a child ended: the signal that killed it, or its exit code."""

    by_signal: int | None
    code: int | None


class Channel:
    """The child's side. `shared` is memory that parent and child see alike."""

    def __init__(self, questions: int, answers: int, shared: mmap.mmap) -> None:
        self._questions = questions
        self._answers = answers
        self.shared = shared

    def questions(self) -> Iterator[None]:
        """One turn for each question; ends when the parent is gone."""
        while os.read(self._questions, 1):
            yield

    def answer(self, value: Any) -> None:
        """Send something JSON can hold."""
        body = json.dumps(value, separators=(",", ":")).encode()
        message = _HEADER.pack(len(body)) + body
        while message:
            message = message[os.write(self._answers, message) :]


class Helper:
    """Forks at once. Raises OSError when there is no process or descriptor to be had.

    Args:
        serve: what the child does: answers each question of the channel, and may send answers
            before the first. The child ends when it returns.
        name: what ps and top show of it, 15 characters at most.
    """

    def __init__(self, serve: Callable[[Channel], None], name: str) -> None:
        self.shared = mmap.mmap(-1, mmap.PAGESIZE)
        self._received = bytearray()
        self.end: End | None = None
        questions, self._questions = os.pipe()
        self._answers, answers = os.pipe()
        os.set_blocking(self._answers, False)
        os.set_blocking(self._questions, False)
        parent = os.getpid()
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _child(serve, Channel(questions, answers, self.shared), name, parent)
        except OSError:
            self._close()
            raise
        finally:
            os.close(questions)
            os.close(answers)

    def ask(self) -> None:
        """Put one question; a child that is gone is noticed by :meth:`take`."""
        with contextlib.suppress(OSError):
            os.write(self._questions, _QUESTION)

    def take(self) -> list[Any]:
        """Answers that have come. Whoever sends nonsense is killed."""
        has_ended = self._receive()
        answers = []
        try:
            while (body := self._next()) is not None:
                answers.append(json.loads(body))
        except ValueError:
            self.kill()
        if has_ended:
            self.is_gone()
        return answers

    def kill(self) -> None:
        """SIGKILL, without waiting for the end."""
        if self.end is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def is_gone(self) -> bool:
        """Whether it has ended; looked at anew. `end` says how."""
        if self.end is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.end = End(-code, None) if code < 0 else End(None, code)
        return self.end is not None

    def close(self) -> None:
        """Kill it and give everything back; whether it is gone is :meth:`is_gone`'s business."""
        self.kill()
        self._close()

    def _receive(self) -> bool:
        """Append what the pipe holds; True at its end."""
        while self._answers >= 0 and len(self._received) <= _LIMIT_BYTES:
            try:
                chunk = os.read(self._answers, 65536)
            except BlockingIOError:
                return False
            if not chunk:
                return True
            self._received += chunk
        return True

    def _next(self) -> bytes | None:
        """One whole answer. ValueError when it announces more than fits."""
        if len(self._received) < _HEADER.size:
            return None
        (size_bytes,) = _HEADER.unpack_from(self._received)
        if size_bytes > _LIMIT_BYTES:
            raise ValueError
        end = _HEADER.size + size_bytes
        if len(self._received) < end:
            return None
        body = bytes(self._received[_HEADER.size : end])
        del self._received[:end]
        return body

    def _close(self) -> None:
        for descriptor in (self._questions, self._answers):
            if descriptor >= 0:
                os.close(descriptor)
        self._questions = self._answers = -1
        self.shared.close()


def _child(serve: Callable[[Channel], None], channel: Channel, name: str, parent: int) -> None:
    """The child's whole life."""
    code = _FAILED
    try:
        gc.freeze()  # what was inherited is left alone, so that its pages stay shared
        let_go(channel._questions, channel._answers)
        _die_with(parent)
        with contextlib.suppress(OSError), open("/proc/self/comm", "w") as file:
            file.write(name[:_LONGEST_NAME])
        serve(channel)
        code = 0
    finally:
        os._exit(code)


def _die_with(parent: int) -> None:
    """The closed pipe ends a child that listens; this ends one that hangs but can be killed."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(_FAILED)
