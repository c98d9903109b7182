"""The real torch's loader with forked workers, around a stand-in for its GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hook.scripts import Job
from tests.labs.queued_gpu.torch import _device

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

SCRIPT = """
import importlib.util, os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset

spec = importlib.util.spec_from_file_location("device", {device!r})
device = importlib.util.module_from_spec(spec)
spec.loader.exec_module(device)
torch._C._cuda_getDeviceCount = lambda: 0
cuda = sys.modules["torch.cuda"] = device.Cuda(is_initialized=True)

class Slow(Dataset):
    def __len__(self): return 6
    def __getitem__(self, n):
        time.sleep(0.05)
        # What a worker inherited and touched would stand here.
        return torch.tensor([float(n), len(cuda.trespasses), cuda.calls["event.record"]])

cuda.calls["event.record"] = 0
for epoch in range(2):
    recorded = cuda.calls["event.record"]
    for item in DataLoader(Slow(), batch_size=2, num_workers=2, multiprocessing_context="fork"):
        assert item[:, 1].sum() == 0 and (item[:, 2] == recorded).all(), item
cuda.default_stream().launch(10**12)
for _ in DataLoader(Slow(), batch_size=2, num_workers=2, multiprocessing_context="fork"):
    pass
assert cuda.trespasses == []
"""


def test_waits_for_workers_are_measured_and_workers_touch_nothing(job: Job) -> None:
    job.ok(SCRIPT.format(device=str(Path(_device.__file__))))
    ring = job.ring()
    assert (ring.dropped, ring.skipped, ring.failed) == (0, 0, 0)
    told = {(wait.epoch, wait.loader, wait.index): wait for wait in ring.gpu_waits}
    busy = [batch for batch in ring.batches if batch.gpu_idle == 0]
    assert len(busy) == 3  # behind the endless work
    for batch in ring.batches:
        if batch in busy or batch.end - batch.start < 100_000:
            continue
        wait = told[batch.epoch, batch.loader, batch.index]
        assert batch.end - batch.start - wait.idle < 1000
