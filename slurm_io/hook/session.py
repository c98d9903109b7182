"""The hook's one state in a process: is it on, its ring, who is in a timed call, optimizer steps.

A ring is made at the first event worth recording. In a child of a training process (a loader
worker, a checkpoint writer) only a loader timed outside a worker is worth it: then the child is a
rank of its own. Its earlier events wait for that in a short list.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import allocate_lock, get_ident

from . import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .ring import Ring

RING_DIR = "SLURM_IO_RING_DIR"
SWITCH = "SLURM_IO_HOOK"
DEBUG = "SLURM_IO_HOOK_DEBUG"
_MAX_PENDING = 64


class Session:
    """State of the hook in this process. `busy` holds the threads that are inside a timed call."""

    def __init__(self) -> None:
        self.folder = os.environ.get(RING_DIR, "")
        self.off = not self.folder or os.environ.get(SWITCH, "") == "0"
        self.ring: Ring | None = None
        self.busy: set[int] = set()
        self.main_thread = _main_thread_ident()
        self.loop_thread = self.main_thread  # the last thread that drove a loader
        self.steps = 0
        self.step_end_ns = 0
        self.dcp_saves = 0  # distributed saves now running
        self.at_ring: list[Callable[[Ring], None]] = []  # called with each new ring
        self._pending: list[tuple[Any, ...]] = []
        self._forked = False
        self._opening = allocate_lock()

    def ring_of_a_rank(self) -> Ring | None:
        """The ring, made now if need be; None when the hook is off or this is a loader worker."""
        if self.ring is not None or self.off or in_loader_worker():
            return self.ring
        # A second thread that comes at this moment loses its first record; it must not wait.
        if not self._opening.acquire(False):
            return None
        try:
            return self._open()
        except Exception as error:
            self.turn_off(error)
            return None
        finally:
            self._opening.release()

    def ring_of_an_event(self) -> Ring | None:
        """The ring for something that alone does not make a process a rank."""
        return self.ring if self.ring is not None or self.is_child() else self.ring_of_a_rank()

    def event(
        self, flags: int, kind: int, start_ns: int, end_ns: int, n_bytes: int = record.UNKNOWN,
        told: bytes = b"",
    ) -> None:  # fmt: skip
        """Record an event, or keep it until this process shows to be a rank. Never raises."""
        try:
            ring = self.ring_of_an_event()
            event = (flags, kind, start_ns, end_ns, self.steps, n_bytes, told)
            if ring is not None:
                ring.event(*event)
            elif not self.off and len(self._pending) < _MAX_PENDING and not in_loader_worker():
                self._pending.append(event)
        except Exception as error:
            self.turn_off(error)

    def enter(self, phase: int, thread: int, now_ns: int) -> None:
        """Show the main thread's phase, where there is a ring to show it in."""
        if self.ring is not None and thread == self.main_thread:
            self.ring.enter(phase, 0, now_ns)

    def turn_off(self, reason: object) -> None:
        """No more records from this process. The user's program goes on as if we were not there."""
        self.off = True
        self.ring = None
        self._pending.clear()
        debug("off: %r" % (reason,))

    def forget_parent(self) -> None:
        """In a forked child: the parent's ring is not ours, nor are its threads and counts."""
        self.ring = None
        self._forked = True
        self.busy.clear()
        self._pending.clear()
        self.main_thread = self.loop_thread = get_ident()
        self.steps = self.step_end_ns = self.dcp_saves = 0
        self._opening = allocate_lock()

    def close(self) -> None:
        """The process ends: last event, ring marked closed."""
        ring = self.ring
        if ring is None:
            return
        now = time.monotonic_ns()
        self.off = True
        self.ring = None
        try:
            ring.event(record.MAIN_THREAD, record.EXIT, now, now, self.steps)
            ring.close()
        except Exception as error:
            debug("exit: %r" % (error,))

    def _open(self) -> Ring:
        from .ring import create_ring

        ring = create_ring(self.folder)
        for event in self._pending:
            ring.event(*event)
        self._pending.clear()
        self.ring = ring
        _at_exit(self.close)
        for start in self.at_ring:
            start(ring)
        debug("ring in %s" % self.folder)
        return ring

    def is_child(self) -> bool:
        """Did a Python process make this one, by fork or multiprocessing?"""
        if self._forked:
            return True
        processes = sys.modules.get("multiprocessing.process")
        return processes is not None and processes.parent_process() is not None


def in_loader_worker() -> bool:
    """Does this thread prepare batches for a torch DataLoader, or this process for Grain?"""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    if worker is not None and worker.get_worker_info() is not None:
        return True
    grain = sys.modules.get("grain._src.python.dataset.transformations.process_prefetch")
    return getattr(grain, "_is_in_worker_process", False) is True


def debug(message: str) -> None:
    """One line on stderr, if the user asked for it."""
    if os.environ.get(DEBUG) == "1":
        try:
            sys.stderr.write("slurm_io hook %d: %s\n" % (os.getpid(), message))
        except Exception:  # stderr closed: nobody to tell
            return


def _main_thread_ident() -> int:
    threading = sys.modules.get("threading")
    ident = None if threading is None else threading.main_thread().ident
    return get_ident() if ident is None else int(ident)


def _at_exit(close: Callable[[], None]) -> None:
    import atexit

    atexit.unregister(close)  # a forked child has its parent's
    atexit.register(close)
    util = sys.modules.get("multiprocessing.util")
    if util is not None:  # a forked multiprocessing child leaves without atexit
        util.Finalize(None, close, exitpriority=1)


SESSION = Session()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SESSION.forget_parent)
