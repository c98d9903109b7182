"""Tells of a lost DataLoader worker at the moment torch notices it, wherever training is then.

torch's handler of SIGCHLD raises in the main thread: mostly while that computes, seldom while it
waits for a batch, where the loader's own clock would see the error.
"""

from __future__ import annotations

import functools
from _thread import get_ident
from time import monotonic_ns

from . import record, text
from .clock import event_flags
from .session import SESSION
from .span import is_marked, mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def patch(module: Any) -> None:
    """Wrap what the handler calls, in torch.utils.data._utils.signal_handling."""
    original = getattr(module, "_error_if_any_worker_fails", None)
    if original is None or is_marked(original):
        return

    @functools.wraps(original)
    def watched() -> None:
        try:
            original()
        except RuntimeError as error:
            _tell(error)
            raise

    module._error_if_any_worker_fails = mark(watched)


def _tell(error: RuntimeError) -> None:
    """Record it where there is a ring. Never raises."""
    try:
        if SESSION.ring is not None:
            now_ns, told = monotonic_ns(), text.encode(text.of_error(error))
            flags = event_flags(get_ident()) | record.FAILED
            SESSION.event(flags, record.ERROR, now_ns, now_ns, told=told)
    except Exception as failure:
        SESSION.turn_off(failure)
