"""Times the waits of one epoch of one loader: the hot path.

`wrap_next` does a batch's work in the wrapper itself and writes the ring in words of eight bytes
(contracts.md, section 1), with bare numbers. Between two batches a training has emptied the caches:
code that is not touched is what counts then, and storing words touches half of what struct does.

Only the outermost timed call of a thread counts: a watched loader that asks a DataLoader, or a
dataset that calls torch.load, gives one record.

Where the waiting thread reads by itself, what it waited is its own time, and the kernel knows to
the ns how much of that it worked: a look from outside finds a thread ready that only wakes, and a
reader wakes often. Asking costs two system calls, so it is done behind a wait that was long.
"""

from __future__ import annotations

import functools
from _thread import get_ident
from time import monotonic_ns, thread_time_ns

from . import record, text
from .gpu_idle import GPU, cuda_module
from .session import SESSION, in_loader_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .gpu_idle import GpuIdle
    from .loaders import Loader
    from .ring import Ring

_BUSY = SESSION.busy
_MASK = record.N_RECORDS - 1
_UNKNOWN_WORD = 0xFFFFFFFFFFFFFFFF  # record.UNKNOWN
_FIRST_BIT = record.FIRST << 8
_CUDA_BIT = record.CUDA << 8
SHORTEST_NS = 200_000
"""Behind a shorter wait the thread's CPU time is not asked for: it costs 1 µs."""


class EpochClock:
    """Clock of one epoch: what `wrap_next` must know from one batch to the next."""

    __slots__ = (
        "loader_id", "thread", "on_main", "index", "batch_word", "wait_word", "gpu",
        "look_at", "reads_itself", "counts_cpu",
        "_loader", "_flags", "_epoch", "_ended", "_has_gpu",
    )  # fmt: skip

    def __init__(self, loader: Loader) -> None:
        self.loader_id = loader.loader_id
        self.thread = 0  # that it was last used on; no thread has this number
        self.on_main = True
        self.index = 0  # of the next batch
        self.batch_word = 0
        self.look_at = loader.padding.first_at  # index of the batch to look at next
        self.wait_word = record.DATA_WAIT | loader.loader_id << 32
        self.reads_itself = False  # on the main thread, without worker processes
        self.counts_cpu = False  # in the next wait
        self.gpu: GpuIdle | None = None  # on the main thread, with a torch made for GPUs
        self._loader = loader
        self._flags = loader.flags | record.FIRST
        self._epoch = loader.epochs & 0xFFFFFFFF
        loader.epochs += 1
        self._ended = False
        self._has_gpu = cuda_module() is not None

    def begin(self, thread: int) -> Ring | None:
        """The first wait of this clock, of a thread with it, or of a forked child with it.

        None: not to be timed (off, in a worker). Never raises.
        """
        try:
            return self._begin(thread)
        except BaseException as error:
            give_up(thread, error)
            return None

    def stopped(self, thread: int, start_ns: int, error: BaseException) -> None:
        """The wait ended without a batch: the epoch is over, or loading failed. Never raises."""
        end_ns = monotonic_ns()
        try:
            SESSION.enter(record.STEP, thread, end_ns)
            fields = self.fields()
            flags = event_flags(thread)
            if isinstance(error, StopIteration):
                if not self._ended:
                    fields["batches"] = self.index
                    SESSION.event(
                        flags, record.EPOCH_END, start_ns, end_ns, -1, text.encode(fields)
                    )
                self._ended = True
            else:
                fields.update(text.of_error(error))
                SESSION.event(
                    flags | record.FAILED, record.ERROR, start_ns, end_ns, -1, text.encode(fields)
                )
            if self.gpu is not None and SESSION.ring is not None:
                self.gpu.stopped(SESSION.ring)
            _BUSY.discard(thread)
        except BaseException as failure:
            give_up(thread, failure)

    def look(self, batch: Any, index: int, now_ns: int) -> None:
        """How much of this batch is padding; out of the wait's time, and seldom."""
        padding = self._loader.padding
        self.look_at = padding.look(batch, index, self.loader_id, self._epoch, now_ns)

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

    def _begin(self, thread: int) -> Ring | None:
        if SESSION.off or in_loader_worker():  # one day workers may be threads of the rank
            return None
        ring = SESSION.ring_of_a_rank()
        if ring is None:
            return None
        self._loader.announce(ring, monotonic_ns())
        self.thread = SESSION.loop_thread = thread
        self.on_main = thread == SESSION.main_thread
        flags = self._flags if self.index == 0 else self._flags & ~record.FIRST
        flags |= 0 if self.on_main else record.OFF_MAIN
        has_room = self.loader_id <= record.OWN_LOADERS
        self.reads_itself = self.on_main and has_room and not flags & record.WORKERS
        self.counts_cpu = False
        self.gpu = GPU if self.on_main and self._has_gpu else None
        seen_cuda = _CUDA_BIT if GPU.in_use else 0
        self.batch_word = (
            record.KIND_BATCH | flags << 8 | seen_cuda | self.loader_id << 16 | self._epoch << 32
        )
        return ring


def wrap_next(
    original: Callable[[Any], Any], adopt: Callable[[Any], EpochClock | None]
) -> Callable[[Any], Any]:
    """`original`, a method that gives the next batch, timed by the clock in `_slurm_io`.

    `adopt` gives a clock, or None, to an object that has none yet. Raises what `original` raises.
    """
    session, busy, now_ns, own_cpu_ns = SESSION, _BUSY, monotonic_ns, thread_time_ns

    @functools.wraps(original)
    def timed_next(self: Any) -> Any:
        try:
            clock = self._slurm_io
        except AttributeError:
            clock = adopt(self)
        thread = get_ident()
        if clock is None or thread in busy:
            return original(self)
        ring = session.ring
        if ring is None or thread != clock.thread:
            ring = clock.begin(thread)
            if ring is None:
                return original(self)
        try:
            busy.add(thread)
            gpu = clock.gpu
            if gpu is not None:
                gpu.begin(ring)
            start_ns = now_ns()
            if clock.on_main:
                words = ring.words
                words[5] = start_ns
                words[4] = clock.wait_word
            cpu_ns = own_cpu_ns() if clock.counts_cpu else 0
        except BaseException as error:
            give_up(thread, error)
            return original(self)
        try:
            batch = original(self)
        except BaseException as error:
            clock.stopped(thread, start_ns, error)
            raise
        end_ns = now_ns()
        try:
            ring = session.ring
            if ring is not None:  # not turned off meanwhile, nor a forked child
                idle = _UNKNOWN_WORD if gpu is None else gpu.end(ring, clock, start_ns, end_ns)
                if clock.reads_itself:
                    is_long = end_ns - start_ns >= SHORTEST_NS
                    if is_long and clock.counts_cpu:
                        own = record.OWN_WORD - 2 + clock.loader_id * 2
                        ring.words[own] += end_ns - start_ns
                        ring.words[own + 1] += own_cpu_ns() - cpu_ns
                    clock.counts_cpu = is_long
                i = next(ring.numbers)
                number = i + 1
                index = clock.index
                words = ring.words
                at = 512 + ((i & _MASK) << 3)
                words[at] = number
                words[at + 1] = clock.batch_word
                words[at + 2] = start_ns
                words[at + 3] = end_ns
                words[at + 4] = index | session.steps << 32
                words[at + 5] = session.step_end_ns
                words[at + 6] = idle
                words[at + 7] = number  # last: only now is the record whole
                if clock.on_main:
                    words[5] = end_ns
                    words[4] = 0
                    words[6] = number
                if not index:
                    clock.batch_word &= ~_FIRST_BIT
                clock.index = index + 1
                if index == clock.look_at:
                    clock.look(batch, index, end_ns)
            busy.discard(thread)
        except BaseException as error:
            give_up(thread, error)
        return batch

    return timed_next


def event_flags(thread: int) -> int:
    """Flags of an event on `thread`: the training thread waits for it, it is the main one."""
    is_main = thread == SESSION.main_thread
    blocking = record.BLOCKING if is_main or thread == SESSION.loop_thread else 0
    return blocking | (record.MAIN_THREAD if is_main else 0)


def give_up(thread: int, error: BaseException) -> None:
    """Our own fault turns the hook off; a KeyboardInterrupt that fell on us belongs to the user."""
    _BUSY.discard(thread)
    if not isinstance(error, Exception):
        raise error
    SESSION.turn_off(error)
