"""The device: streams whose queues drain by a clock, events, graph capture, planned errors."""

from __future__ import annotations

import os
import struct
import time
from contextlib import contextmanager

FOREVER_NS = 1 << 60


class Clock:
    """CLOCK_MONOTONIC in ns."""

    def now_ns(self):
        return time.monotonic_ns()


class ClockByHand(Clock):
    """Stands still until it is moved on."""

    def __init__(self, now_ns=1_000_000_000):
        self.time_ns = now_ns

    def now_ns(self):
        return self.time_ns

    def pass_ns(self, ns):
        self.time_ns += ns


class Stream:
    """One queue of one device. `busy` holds all (from, to) in which it worked, for the tests."""

    def __init__(self, cuda, device, number):
        self._cuda = cuda
        self.device = device
        self.cuda_stream = number
        self.stream_id = number and 2 * number + 1  # odd: made by torch; 0: the default one
        self.busy_until_ns = 0
        self.busy = []

    def launch(self, work_ns):
        """Queue work of so many ns. A capture takes it instead of running it."""
        if self._cuda.capturing is self:
            return
        start_ns = max(self._cuda.clock.now_ns(), self.busy_until_ns)
        self.busy_until_ns = start_ns + work_ns
        self.busy.append((start_ns, self.busy_until_ns))

    def left_ns(self):
        """How long it will still work."""
        return max(0, self.busy_until_ns - self._cuda.clock.now_ns())

    def query(self):
        self._cuda.called("stream.query")
        return self.left_ns() == 0

    def synchronize(self):
        self._cuda.trespass("stream.synchronize")


class Event:
    """As torch.cuda.Event, of the device `cuda` (see :meth:`Cuda.event_class`)."""

    cuda = None

    def __init__(self, enable_timing=False, blocking=False, interprocess=False):
        self._timing = enable_timing
        self._pid = os.getpid()
        self._device = None
        self.done_ns = None

    def record(self, stream=None):
        self._touch("record")
        stream = self.cuda.current_stream() if stream is None else stream
        if self._device not in (None, stream.device):
            raise RuntimeError("event of another device than the stream")
        self._device = stream.device
        self.done_ns = max(self.cuda.clock.now_ns(), stream.busy_until_ns)

    def query(self):
        self._touch("query")
        return self._is_done()

    def elapsed_time(self, end):
        """Milliseconds, as precise as a C float."""
        self._touch("elapsed_time")
        if not self._timing or not end._timing:
            raise ValueError("both events need enable_timing")
        if self.done_ns is None or end.done_ns is None:
            raise ValueError("both events must be recorded")
        if not (self._is_done() and end._is_done()):
            raise RuntimeError("CUDA error: device not ready")
        return struct.unpack("f", struct.pack("f", (end.done_ns - self.done_ns) / 1e6))[0]

    def synchronize(self):
        self.cuda.trespass("event.synchronize")

    def __del__(self):
        if self.done_ns is not None and self._pid != os.getpid():
            self.cuda.trespass("an event of the parent was freed in its child")

    def _is_done(self):
        return self.done_ns is None or self.cuda.clock.now_ns() >= self.done_ns

    def _touch(self, call):
        if self._pid != os.getpid():
            self.cuda.trespass(f"event.{call} in a forked child")
        if self.cuda.capturing is not None:
            self.cuda.trespass(f"event.{call} during a capture")
        self.cuda.called("event." + call)


class Cuda:
    """What torch.cuda offers. `fail_at`: {call: at which of its calls it begins to raise}."""

    def __init__(self, clock=None, is_initialized=False):
        self.clock = clock or Clock()
        self._initialized = is_initialized
        self._pid = os.getpid()
        self.streams = {}
        self.device = 0
        self.capturing = None
        self.calls = {}
        self.fail_at = {}
        self.trespasses = []
        self._chosen = {}
        self.Event = type("Event", (Event,), {"cuda": self})

    def init(self):
        self._initialized = True

    def is_initialized(self):
        return self._initialized and self._pid == os.getpid()

    def set_device(self, device):
        self.device = device

    def stream_of(self, device, number):
        """Stream `number` of a device; 0 is its default one."""
        key = (device, number)
        if key not in self.streams:
            self.streams[key] = Stream(self, device, number)
        return self.streams[key]

    def default_stream(self, device=None):
        self.called("default_stream")
        return self.stream_of(self.device if device is None else device, 0)

    def current_stream(self, device=None):
        self.called("current_stream")
        device = self.device if device is None else device
        return self._chosen.get(device) or self.stream_of(device, 0)

    @contextmanager
    def stream(self, chosen):
        """`with stream(s):` makes s the current one of its device."""
        before = self._chosen.get(chosen.device)
        self._chosen[chosen.device] = chosen
        try:
            yield
        finally:
            self._chosen[chosen.device] = before

    def is_current_stream_capturing(self):
        self.called("is_current_stream_capturing")
        return self.capturing is not None and self.capturing is self.current_stream()

    def synchronize(self, device=None):
        self.trespass("synchronize")

    def called(self, call):
        """Count a call; raise where that was planned."""
        self.calls[call] = self.calls.get(call, 0) + 1
        if call in self.fail_at and self.calls[call] >= self.fail_at[call]:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def trespass(self, what):
        self.trespasses.append(what)
