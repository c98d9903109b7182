"""Times what starts a pass over a loader."""

from __future__ import annotations

from . import record
from .span import open_span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .clock import EpochClock


def start_epoch(clock: EpochClock | None, begin: Callable[[], Any]) -> Any:
    """What `begin()` returns; with a clock its time is an event, and the loader is described.

    Raises what `begin` raises.
    """
    span = None if clock is None else open_span(record.EPOCH_START, clock.loader_id)
    if span is None or clock is None:
        return begin()
    try:
        iterator = begin()
    except BaseException as error:
        span.close(error, clock.fields(), None)
        raise
    clock.announce()
    span.close(None, clock.fields(), None)
    return iterator
