"""Long garbage collections: a decoy that looks like a slow step and is no storage."""

from __future__ import annotations

import gc
from time import monotonic_ns
from _thread import get_ident

from . import record
from .clock import event_flags
from .session import SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .ring import Ring

SHORTEST_NS = 1_000_000


class PauseTimer:
    """The callback of gc.callbacks: collections of the old generations that last 1 ms or more."""

    def __init__(self) -> None:
        self._start_ns = 0

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] == 0 or SESSION.ring is None:
            return
        if phase == "start":
            self._start_ns = monotonic_ns()
        elif self._start_ns:
            self._stop()

    def _stop(self) -> None:
        start_ns, self._start_ns = self._start_ns, 0
        end_ns = monotonic_ns()
        if end_ns - start_ns >= SHORTEST_NS:
            flags = event_flags(get_ident()) | record.BLOCKING  # a collection holds every thread
            SESSION.event(flags, record.GC, start_ns, end_ns)


def start(ring: Ring) -> None:
    """Listen from the first ring on; a process that trains nothing pays nothing."""
    if not any(isinstance(callback, PauseTimer) for callback in gc.callbacks):
        gc.callbacks.append(PauseTimer())
