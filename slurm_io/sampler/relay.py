"""Runs the sampler's work in a thread that is left behind when a read of /proc hangs.

One process that hangs in execve must not blind the sampler of every job on its node. The main
thread looks once a second at the worker thread. When that sleeps at the same file of /proc/PID as
at the look before, PID is left out from then on and the work is taken up by another thread, from
its beginning: the work has to bear that, and every object it changes too. The thread left behind
ends inside the read as soon as that returns.

Signal handlers run in the main thread, so they run also while the work hangs.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from slurm_io.sampler.hung_read import HungRead, HungReads

_LOOK_EVERY_S = 1.0
_MOST_LEFT = 32  # threads of some 50 KiB each

Answer = TypeVar("Answer")


class LeftBehindError(BaseException):
    """Thrown into a thread whose work another one has taken up. Not an Exception: nobody but the
    thread's own end is to catch it."""


class Relay:
    """One work after the other. `leave_out` is called when nothing else runs, `take_back` when a
    read of that process has returned after all, beside the work."""

    def __init__(
        self,
        proc_root: Path,
        leave_out: Callable[[int, str], None],
        take_back: Callable[[int], None],
    ) -> None:
        self._reads = HungReads(proc_root)
        self._leave_out = leave_out
        self._take_back = take_back
        self._left: list[tuple[int, _Worker[Any]]] = []

    def run(self, work: Callable[[], Answer]) -> Answer:
        """What `work` returns or raises."""
        worker = _Worker(work)
        before: HungRead | None = None
        while not worker.is_over(_LOOK_EVERY_S):
            self._look_at_those_left()
            now = self._reads.of_thread(worker.tid) if len(self._left) < _MOST_LEFT else None
            if now is not None and now == before:
                self._leave_out(now.pid, now.file)
                worker.leave()
                self._left.append((now.pid, worker))
                worker, now = _Worker(work), None
            before = now
        return worker.answer()

    def _look_at_those_left(self) -> None:
        for pid in [pid for pid, worker in self._left if worker.is_over(0)]:
            self._left = [(p, worker) for p, worker in self._left if not worker.is_over(0)]
            if pid not in (other for other, _worker in self._left):
                self._take_back(pid)


class _Worker(Generic[Answer]):
    """One thread that does the work once."""

    def __init__(self, work: Callable[[], Answer]) -> None:
        self._work = work
        self._answer: Answer | None = None
        self._error: BaseException | None = None
        self._over = threading.Event()
        # A daemon: one that hangs keeps nobody from ending the process.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.tid = self._thread.native_id or 0

    def is_over(self, within_s: float) -> bool:
        """Whether it has ended; waits for that, but no longer than so many seconds."""
        return self._over.wait(within_s) if within_s else self._over.is_set()

    def leave(self) -> None:
        """End it between the two steps that follow the read it hangs in."""
        import ctypes  # a megabyte that only a hung process is worth

        ident = ctypes.c_ulong(self._thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(LeftBehindError))

    def answer(self) -> Answer:
        """What came of the work."""
        if self._error is not None:
            raise self._error
        return self._answer  # type: ignore[return-value]

    def _run(self) -> None:
        try:
            self._answer = self._work()
        except LeftBehindError:
            self._over.set()
            _rest_for_ever()
        except BaseException as error:  # noqa: BLE001 - raised again where the answer is asked for
            self._error = error
        self._over.set()


def _rest_for_ever() -> None:
    """Its end would kill the helpers that this thread has started (PR_SET_PDEATHSIG)."""
    while True:
        with contextlib.suppress(LeftBehindError):
            time.sleep(86400)
