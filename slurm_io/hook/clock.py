"""Times the waits of one epoch of one loader: the hot path, two calls a batch.

`start` and `batch` write into the ring by themselves and with bare numbers (contracts.md,
section 1): one more call costs a tenth of what a step may cost.

Only the outermost timed call of a thread counts: a watched loader that asks a DataLoader, or a
dataset that calls torch.load, gives one record.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from time import monotonic_ns

from . import record, text
from .session import SESSION, in_loader_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .loaders import Loader
    from .ring import Ring

_BUSY = SESSION.busy
_MASK = record.N_RECORDS - 1
_pack_timed = record.TIMED.pack_into
_pack_phase = record.PHASE.pack_into
_pack_phase_and_count = record.PHASE_AND_COUNT.pack_into


class EpochClock:
    """Clock of one epoch: `start()` and, if that said True, one of `batch()` and `stopped()`."""

    __slots__ = (
        "loader_id", "_loader", "_flags", "_epoch", "_index", "_thread", "_main", "_start_ns",
        "_cuda", "_ended",
    )  # fmt: skip

    def __init__(self, loader: Loader) -> None:
        self.loader_id = loader.loader_id
        self._loader = loader
        self._flags = loader.flags | record.FIRST
        self._epoch = loader.epochs
        loader.epochs += 1
        self._index = 0
        self._thread = 0
        self._main = True
        self._start_ns = 0
        self._cuda = _cuda_module()
        self._ended = False

    def start(self) -> bool:
        """A wait begins. False: not to be timed (off, nested, in a worker). Never raises."""
        thread = get_ident()
        ring = SESSION.ring
        if thread in _BUSY:
            return False
        try:
            if ring is None or thread != self._thread:
                ring = self._on_new_thread(thread)
                if ring is None:
                    return False
            _BUSY.add(thread)
            self._start_ns = start_ns = monotonic_ns()
            if self._main:
                _pack_phase(ring.mapped, 32, 1, self.loader_id, start_ns)
            return True
        except BaseException as error:
            return _give_up(thread, error)

    def batch(self) -> None:
        """The wait ended with a batch. Never raises."""
        end_ns = monotonic_ns()
        try:
            session = SESSION
            ring = session.ring
            if ring is not None:
                if self._cuda is not None and self._cuda._initialized:
                    self._flags |= 4
                    self._cuda = None
                i = next(ring.numbers)
                index = self._index
                _pack_timed(
                    ring.mapped, 4096 + ((i & _MASK) << 6), i + 1, 1, self._flags, self.loader_id,
                    self._epoch, self._start_ns, end_ns, index, session.steps,
                    session.step_end_ns, -1, i + 1,
                )  # fmt: skip
                if self._main:
                    _pack_phase_and_count(ring.mapped, 32, 0, 0, end_ns, i + 1)
                if not index:
                    self._flags &= ~1
                self._index = index + 1
            _BUSY.discard(self._thread)
        except BaseException as error:
            _give_up(self._thread, error)

    def stopped(self, error: BaseException) -> None:
        """The wait ended without a batch: the epoch is over, or loading failed. Never raises."""
        end_ns = monotonic_ns()
        thread = self._thread
        try:
            SESSION.enter(record.STEP, thread, end_ns)
            fields = self.fields()
            flags = event_flags(thread)
            if isinstance(error, StopIteration):
                if not self._ended:
                    fields["batches"] = self._index
                    SESSION.event(
                        flags, record.EPOCH_END, self._start_ns, end_ns, -1, text.encode(fields)
                    )
                self._ended = True
            else:
                fields["error"] = type(error).__name__
                SESSION.event(
                    flags | record.FAILED, record.ERROR, self._start_ns, end_ns, -1,
                    text.encode(fields),
                )  # fmt: skip
            _BUSY.discard(thread)
        except BaseException as failure:
            _give_up(thread, failure)

    def fields(self) -> dict[str, Any]:
        """Which epoch of which loader, for the text of an event."""
        return {"loader": self.loader_id, "epoch": self._epoch}

    def announce(self) -> None:
        """Describe the loader in the ring, if there is one. Never raises."""
        try:
            if SESSION.ring is not None:
                self._loader.announce(SESSION.ring, monotonic_ns())
        except Exception as error:
            SESSION.turn_off(error)

    def _on_new_thread(self, thread: int) -> Ring | None:
        """The first wait of this clock, of a thread with it, or of a forked child with it."""
        if SESSION.off or in_loader_worker():  # one day workers may be threads of the rank
            return None
        ring = SESSION.ring_of_a_rank()
        if ring is None:
            return None
        self._loader.announce(ring, monotonic_ns())
        self._thread = SESSION.loop_thread = thread
        self._main = thread == SESSION.main_thread
        self._flags = self._flags & ~record.OFF_MAIN | (0 if self._main else record.OFF_MAIN)
        return ring


def event_flags(thread: int) -> int:
    """Flags of an event on `thread`: the training thread waits for it, it is the main one."""
    is_main = thread == SESSION.main_thread
    blocking = record.BLOCKING if is_main or thread == SESSION.loop_thread else 0
    return blocking | (record.MAIN_THREAD if is_main else 0)


def _give_up(thread: int, error: BaseException) -> bool:
    """Our own fault turns the hook off; a KeyboardInterrupt that fell on us belongs to the user."""
    _BUSY.discard(thread)
    if not isinstance(error, Exception):
        raise error
    SESSION.turn_off(error)
    return False


def _cuda_module() -> Any:
    """torch.cuda, if this torch was built for GPUs."""
    cuda = sys.modules.get("torch.cuda")
    built = getattr(sys.modules.get("torch._C"), "_cuda_getDeviceCount", None)
    return cuda if built is not None and hasattr(cuda, "_initialized") else None
