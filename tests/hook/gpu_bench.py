"""One process that measures on a device whose clock stands still between the calls."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from slurm_io.hook import gpu_idle, record
from slurm_io.hook.ring import Ring
from slurm_io.sampler.ring_format import GpuWait, parse_record
from tests.labs.queued_gpu.torch._device import ClockByHand, Cuda

MS = 1_000_000
_UNKNOWN = 0xFFFFFFFFFFFFFFFF


class Bench:
    """One process with a device, a ring and a loader of its own."""

    def __init__(self, is_initialized: bool = True) -> None:
        self.clock = ClockByHand()
        self.cuda = Cuda(self.clock, is_initialized)
        self.bytes = mmap.mmap(-1, record.HEADER_BYTES + record.RECORD_BYTES * record.N_RECORDS)
        self.ring = Ring(self.bytes)
        self.gpu = gpu_idle.GpuIdle()
        self.loader: Any = SimpleNamespace(
            batch_word=record.KIND_BATCH | 3 << 16 | 2 << 32, index=0
        )

    def wait(self, ns: int, during: Callable[[], None] = lambda: None) -> int | None:
        """One data wait of `ns`; what was known at its end."""
        before = sys.modules.get("torch.cuda")
        sys.modules["torch.cuda"] = self.cuda  # type: ignore[assignment]
        try:
            self.gpu.begin(self.ring)
            start_ns = self.clock.now_ns()
            during()
            self.clock.pass_ns(ns)
            known = self.gpu.end(self.ring, self.loader, start_ns, start_ns + ns)
        finally:
            if before is None:
                del sys.modules["torch.cuda"]
            else:
                sys.modules["torch.cuda"] = before
        self.loader.index += 1
        return None if known == _UNKNOWN else known

    def told(self) -> list[GpuWait]:
        """The records of the ring, as the sampler reads them."""
        written = self.ring.words[6]
        found = [
            parse_record(bytes(self.bytes), record.HEADER_BYTES + i * record.RECORD_BYTES)
            for i in range(written)
        ]
        assert all(isinstance(each, GpuWait) for each in found)
        return found  # type: ignore[return-value]

    def counts(self) -> tuple[int, int, int]:
        """Waits dropped and skipped, and whether it failed."""
        return tuple(self.ring.words[8:11])  # type: ignore[return-value]
