"""How long the GPU had nothing to do behind a data wait: asked of the GPU, never waited for.

An event recorded when a wait begins completes when all work queued before it on that stream is
done. Not yet complete when the wait ends: the GPU was busy all the time, idle 0, known at once.
Else a second event is recorded then. Nothing was queued between the two, so the time between them
is the stream's idle time; a later wait reads it and writes a record of its own (GPU), which the
analysis joins to the batch. Where the current stream is not the one that trains, both are asked: a
GPU that works on either is not idle.

While a CUDA graph is captured, on any thread, nothing is recorded or asked: either could spoil the
capture. Pairs come from a small pool; when none is free the wait goes unmeasured and is counted.
Any error of torch or the driver ends it for the process. A forked child leaves what it inherited
untouched. With ROCm torch.cuda is HIP, and all of it holds.
"""

from __future__ import annotations

import os
import sys
from collections import deque

from . import record
from .gpu_pairs import Pair, Pairs
from .gpu_stream import TrainingStream, watch_steps
from .session import debug

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .clock import EpochClock
    from .ring import Ring

SHORTEST_NS = 100_000
"""A shorter wait gets no second event: idle time below this is not worth its price."""
_MASK = record.N_RECORDS - 1
_UNKNOWN_WORD = 0xFFFFFFFFFFFFFFFF
_CUDA_BIT = record.CUDA << 8
_TO_GPU = record.KIND_GPU - record.KIND_BATCH  # from a BATCH's second word to a GPU record's


class GpuIdle:
    """The measuring of one process: waits of its main thread, one at a time.

    `captures`: graphs being captured now. `in_use`: CUDA was initialised in this process.
    `training`: which stream trains; None until then, and once the measuring has ended.
    """

    def __init__(self) -> None:
        self.captures = 0
        self.in_use = False
        self.training: TrainingStream | None = None
        self._inherited: list[Any] = []
        self._ready: Pair | None = None  # for the next wait; as a rule it was for the last one too
        self._begun: Pair | None = None  # the pair of a wait that has not ended
        self._reset()

    def begin(self, ring: Ring) -> None:
        """A wait begins. Raises nothing of torch's."""
        try:
            training = self.training
            if training is None:
                training = None if self._is_off else self._set_up()
                if training is None:
                    return
            if self._begun is not None:  # that wait never ended
                self._put_away(self._begun)
                self._begun = None
            if self.captures or self._is_capturing():
                self._skipped += 1
                ring.words[record.GPU_SKIPPED_WORD] = self._skipped
                return
            stream = self._current_stream()
            pair = self._ready
            if (
                pair is None
                or stream.cuda_stream != training.handle
                or pair.device != stream.device
            ):
                pair = self._fitting(stream, training.beside(stream))
                if pair is None:
                    self._dropped += 1
                    ring.words[record.GPU_DROPPED_WORD] = self._dropped
                    if self._waiting:
                        self._read(ring)
                    return
            pair.stream = stream
            pair.start.record(stream)
            self._begun = pair
        except Exception as error:
            self._fail(ring, error)

    def end(self, ring: Ring, clock: EpochClock, start_ns: int, end_ns: int) -> int:
        """The wait ended: 0 (the GPU had work all the time) or, as a word, "not known by now".

        Reads an older pair too. Raises nothing of torch's.
        """
        if self.in_use:
            clock.batch_word |= _CUDA_BIT
        try:
            pair, self._begun = self._begun, None
            if pair is None:
                return _UNKNOWN_WORD
            if self.captures:
                self._put_away(pair)
                return _UNKNOWN_WORD
            is_busy = pair.is_busy()
            is_later = not is_busy and end_ns - start_ns >= SHORTEST_NS
            if is_later:
                pair.finish()
                if pair is self._ready:
                    self._ready = None
            else:
                self._put_away(pair)
            if self._waiting:
                self._read(ring)
            if is_later:
                kind = clock.batch_word + _TO_GPU
                self._waiting.append((pair, kind, start_ns, end_ns, clock.index))
            return 0 if is_busy else _UNKNOWN_WORD
        except Exception as error:
            self._fail(ring, error)
        return _UNKNOWN_WORD

    def stopped(self, ring: Ring) -> None:
        """The wait ended without a batch: only older pairs are read. Raises nothing of torch's."""
        try:
            while self._waiting and not self.captures and not self._is_capturing():
                if not self._read(ring):
                    return
        except Exception as error:
            self._fail(ring, error)

    def forget_parent(self) -> None:
        """In a forked child: the parent's events are kept and never touched, not even freed."""
        self._inherited.append((self._pairs, self._waiting, self._ready, self._begun))
        self.captures = 0
        self.in_use = False
        self._reset()

    def leave(self) -> None:
        """No more measuring in this process; events are given back to the driver."""
        self._reset()
        self._is_off = True

    def come_back(self) -> None:
        """The hook is loaded again into this process."""
        self._is_off = False

    def _reset(self) -> None:
        self._is_off = False
        self.training = self._ready = self._begun = None
        self._pairs = Pairs(None)
        self._waiting: deque[tuple[Pair, int, int, int, int]] = deque()
        self._current_stream: Any = None  # torch's functions, once CUDA is in use
        self._is_capturing: Any = None
        self._dropped = self._skipped = 0

    def _set_up(self) -> TrainingStream | None:
        """Is CUDA in use, by now? Never initialises it."""
        cuda = sys.modules["torch.cuda"]
        if not cuda._initialized:
            return None
        is_initialized = getattr(cuda, "is_initialized", None)
        if is_initialized is not None and not is_initialized():
            return None  # a forked child of a process that used it
        self.in_use = True
        self._pairs = Pairs(cuda.Event)
        self._current_stream = cuda.current_stream
        self._is_capturing = getattr(cuda, "is_current_stream_capturing", _never)  # since 1.10
        self.training = TrainingStream(cuda)
        watch_steps(self)
        return self.training

    def _fitting(self, stream: Any, beside: Any) -> Pair | None:
        """A pair for these streams, ready for the next waits if for one only. None: none free."""
        if self._ready is not None:
            self._pairs.give_back(self._ready)
            self._ready = None
        pair = self._pairs.take(stream.device, beside is not None)
        if pair is None or pair.beside is None:
            self._ready = pair
        else:
            pair.beside.stream = beside
            pair.beside.start.record(beside)
        return pair

    def _put_away(self, pair: Pair) -> None:
        """Its wait is not measured, or known already."""
        if pair is not self._ready:
            self._pairs.give_back(pair)

    def _read(self, ring: Ring) -> bool:
        """Write the record of the oldest pair under way, if that is complete."""
        pair, kind, start_ns, end_ns, index = self._waiting[0]
        idle_ns = pair.idle_ns()
        if idle_ns is None:
            return False
        self._waiting.popleft()
        if self._ready is None and pair.beside is None:
            self._ready = pair
        else:
            self._pairs.give_back(pair)
        i = next(ring.numbers)
        number = i + 1
        words = ring.words
        at = 512 + ((i & _MASK) << 3)
        words[at] = number
        words[at + 1] = kind
        words[at + 2] = start_ns
        words[at + 3] = end_ns
        words[at + 4] = index
        words[at + 5] = 0
        words[at + 6] = min(idle_ns, end_ns - start_ns)
        words[at + 7] = number
        words[6] = number
        return True

    def _fail(self, ring: Ring, error: Exception) -> None:
        """No more of it in this process. The user's own next call meets the device's error."""
        self._is_off = True
        self.training = self._begun = None
        self._waiting.clear()
        ring.words[record.GPU_FAILED_WORD] = 1
        debug("GPU idle time is not measured any more: %r" % (error,))


def cuda_module() -> Any:
    """torch.cuda, if torch is there and was built for GPUs."""
    cuda = sys.modules.get("torch.cuda")
    built = getattr(sys.modules.get("torch._C"), "_cuda_getDeviceCount", None)
    return cuda if built is not None and hasattr(cuda, "_initialized") else None


def _never() -> bool:
    return False


GPU = GpuIdle()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=GPU.forget_parent)
