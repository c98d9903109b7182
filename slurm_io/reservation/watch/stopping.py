"""Signals that must wait for a moment: until what was started is also remembered."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

END_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def not_stopped_here() -> Iterator[None]:
    """The end waits for this block, which must be short."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
