"""Times one call that is no batch: a checkpoint, a load, the start of an epoch."""

from __future__ import annotations

import functools
from _thread import get_ident
from time import monotonic_ns

from . import record, target, text
from .clock import event_flags
from .session import SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_PHASES = {
    record.CKPT_SAVE: record.CHECKPOINT,
    record.CKPT_ASYNC: record.CHECKPOINT,
    record.LOAD: record.LOADING,
    record.EPOCH_START: record.DATA_WAIT,
}
_SHORT_BACKGROUND_NS = 10_000_000


class Span:
    """A timed call on this thread. Made by `open_span`; `close` it once. Neither raises."""

    __slots__ = ("kind", "_thread", "_flags", "_start_ns")

    def __init__(self, kind: int, thread: int) -> None:
        self._thread = thread
        self._flags = event_flags(thread)
        self.kind = kind
        if kind == record.CKPT_SAVE and not self._flags & record.BLOCKING:
            self.kind = record.CKPT_BACKGROUND  # a thread beside training: DCP's, Lightning's
        self._start_ns = monotonic_ns()

    def show_phase(self, loader_id: int) -> None:
        """Put the phase into the ring, on the main thread."""
        phase = _PHASES.get(self.kind)
        if phase is None or self._thread != SESSION.main_thread:
            return
        is_loader = self.kind == record.EPOCH_START
        ring = SESSION.ring_of_a_rank() if is_loader else SESSION.ring_of_an_event()
        if ring is not None:
            ring.enter(phase, loader_id, self._start_ns)

    def close(
        self, error: BaseException | None, fields: dict[str, Any], n_bytes: Callable[[], int] | None
    ) -> None:
        """The call ended, in `error` or well. `n_bytes` tells the bytes moved and is not timed."""
        end_ns = monotonic_ns()
        SESSION.busy.discard(self._thread)
        try:
            SESSION.enter(record.STEP, self._thread, end_ns)
            if self._is_noise(end_ns):
                return
            moved = record.UNKNOWN
            if error is not None:
                self._flags |= record.FAILED
                fields.update(text.of_error(error))
            elif n_bytes is not None:
                moved = n_bytes()
            told = text.encode(fields) if fields else b""
            SESSION.event(self._flags, self.kind, self._start_ns, end_ns, moved, told)
        except Exception as failure:
            SESSION.turn_off(failure)

    def _is_noise(self, end_ns: int) -> bool:
        # A prefetch thread that torch.loads every sample would flood the ring; nobody waits for it.
        is_background_load = self.kind == record.LOAD and not self._flags & record.BLOCKING
        return is_background_load and end_ns - self._start_ns < _SHORT_BACKGROUND_NS


def open_span(kind: int, loader_id: int = 0) -> Span | None:
    """A running span, or None: the hook is off, or this thread is inside a timed call already."""
    thread = get_ident()
    if SESSION.off or thread in SESSION.busy:
        return None
    try:
        span = Span(kind, thread)
        span.show_phase(loader_id)
    except Exception as error:
        SESSION.turn_off(error)
        return None
    SESSION.busy.add(thread)
    return span


def timed(
    original: Callable[..., Any], kind: int, find_target: Callable[..., Any]
) -> Callable[..., Any]:
    """`original`, timed as `kind`. `find_target(args, kwargs)`: a path, an open file or None."""

    @functools.wraps(original)
    def timed_call(*args: Any, **kwargs: Any) -> Any:
        where = find_target(args, kwargs)
        span = None if target.is_memory(where) else open_span(kind)
        if span is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            span.close(error, path_field(where), None)
            raise
        size = target.bytes_of_file if kind == record.LOAD else target.bytes_written
        span.close(None, path_field(where), lambda: size(where))
        return result

    return mark(timed_call)  # type: ignore[no-any-return]


def mark(wrapper: Any) -> Any:
    """Mark a wrapper as ours, and as nothing for torch.compile to trace."""
    wrapper._torchdynamo_disable = True
    wrapper._slurm_io_timed = True
    return wrapper


def is_marked(function: object) -> bool:
    """Is it a wrapper of ours already?"""
    return getattr(function, "_slurm_io_timed", False) is True


def path_field(where: object) -> dict[str, Any]:
    """The text field that names the target; empty when it has no path."""
    path = target.path_of(where)
    return {} if path is None else {"path": path}
