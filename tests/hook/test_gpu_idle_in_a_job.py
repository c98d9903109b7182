"""Training scripts with a GPU under the hook: a stand-in, whose queue is idle or busy for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hook.scripts import ATTACH, Job
from tests.hook.test_interpreters import FOUND, SUPPORTED

GPU_TORCH = Path(__file__).parents[1] / "labs" / "queued_gpu"
HEAD = """
import os, threading, time
import torch, torch.cuda
from torch.optim.optimizer import SGD
from torch.utils.data import DataLoader
cuda, optimizer = torch.cuda, SGD()

class Slow:
    def __init__(self, number, seconds=0.02): self.number, self.seconds = number, seconds
    def __iter__(self):
        for n in range(self.number):
            time.sleep(self.seconds)
            yield n
"""


@pytest.fixture
def gpu_job(job: Job) -> Job:
    job.path = (str(ATTACH), str(GPU_TORCH))
    return job


@pytest.mark.parametrize("version", SUPPORTED)
def test_idle_and_busy_waits_are_told_apart(gpu_job: Job, version: str) -> None:
    gpu_job.python = FOUND[version]
    gpu_job.ok(
        HEAD
        + """
cuda.init()
for n in DataLoader(Slow(6)):
    optimizer.step()
    if n == 2: cuda.current_stream().launch(10**12)   # busy for good
assert cuda.trespasses == []
"""
    )
    ring = gpu_job.ring()
    assert [b.gpu_idle for b in ring.batches] == [-1, -1, -1, 0, 0, 0]
    assert all(b.flags & 4 for b in ring.batches)
    assert [(w.loader, w.epoch, w.index) for w in ring.gpu_waits] == [(1, 0, n) for n in range(3)]
    for wait, batch in zip(ring.gpu_waits, ring.batches[:3], strict=True):
        assert (wait.start, wait.end) == (batch.start, batch.end)
        assert wait.end - wait.start - wait.idle < 1000  # all of it: nothing was queued
    assert (ring.dropped, ring.skipped, ring.failed) == (0, 0, 0)


def test_a_loop_that_trains_on_a_stream_of_its_own_is_asked_about_that_one(gpu_job: Job) -> None:
    gpu_job.ok(
        HEAD
        + """
cuda.init()
mine = cuda.stream_of(0, 7)
for n in DataLoader(Slow(5)):
    with cuda.stream(mine):
        optimizer.step()
        if n == 1: mine.launch(10**12)
assert cuda.trespasses == []
"""
    )
    ring = gpu_job.ring()
    assert [b.gpu_idle for b in ring.batches] == [-1, -1, 0, 0, 0]
    assert [w.index for w in ring.gpu_waits] == [0, 1]


def test_a_program_that_never_uses_its_gpu_is_asked_nothing(gpu_job: Job) -> None:
    gpu_job.ok(
        HEAD
        + """
for n in DataLoader(Slow(3)): optimizer.step()
assert cuda.calls == {} and cuda.trespasses == [], (cuda.calls, cuda.trespasses)
"""
    )
    ring = gpu_job.ring()
    assert [b.gpu_idle for b in ring.batches] == [-1] * 3
    assert not any(b.flags & 4 for b in ring.batches)


def test_a_loader_on_another_thread_is_not_measured(gpu_job: Job) -> None:
    gpu_job.ok(
        HEAD
        + """
cuda.init()
batches = DataLoader(Slow(3))
thread = threading.Thread(target=lambda: list(batches))
thread.start(); thread.join()
assert cuda.calls == {}, cuda.calls
"""
    )
    assert gpu_job.ring().gpu_waits == []


def test_no_capture_is_disturbed_on_whatever_thread(gpu_job: Job) -> None:
    gpu_job.ok(
        HEAD
        + """
from torch.cuda.graphs import CUDAGraph
cuda.init()
graph = CUDAGraph()
for n in DataLoader(Slow(8)):
    if n == 1: graph.capture_begin()
    if n == 2:
        try: CUDAGraph().capture_begin()
        except RuntimeError as error: assert "capturing" in str(error)
        else: raise SystemExit("began")
    if n == 3: graph.capture_end()
    if n == 4:
        side = cuda.stream_of(0, 5)
        def capture():
            with cuda.stream(side): graph.capture_begin()
        thread = threading.Thread(target=capture); thread.start(); thread.join()
    if n == 5: graph.capture_end()
try: graph.capture_end()
except RuntimeError: pass
assert cuda.trespasses == [], cuda.trespasses
"""
    )
    ring = gpu_job.ring()
    assert [w.index for w in ring.gpu_waits] == [0, 1, 4, 6, 7]
    assert ring.skipped == 3


def test_a_forked_child_leaves_its_parents_events_alone(gpu_job: Job) -> None:
    gpu_job.ok(
        HEAD
        + """
import gc
cuda.init()
batches = iter(DataLoader(Slow(8)))
next(batches); next(batches)
pid = os.fork()
if pid == 0:
    calls = dict(cuda.calls)
    next(batches); next(batches)
    list(DataLoader(Slow(2)))
    gc.collect()
    os._exit(0 if cuda.trespasses == [] and cuda.calls == calls else 1)
assert os.waitpid(pid, 0)[1] == 0
next(batches); next(batches)
assert cuda.trespasses == []
"""
    )
    parent, child = sorted(gpu_job.rings(), key=lambda ring: -len(ring.gpu_waits))
    assert [w.index for w in parent.gpu_waits] == [0, 1, 2]
    assert child.gpu_waits == []
    assert [b.index for b in child.batches] == [2, 3, 0, 1]
    assert not any(b.flags & 4 for b in child.batches)


@pytest.mark.parametrize("call", ["event.record", "event.query", "event.elapsed_time"])
def test_a_device_error_ends_the_measuring_and_nothing_else(gpu_job: Job, call: str) -> None:
    gpu_job.ok(
        HEAD
        + f"""
cuda.init()
cuda.fail_at["{call}"] = 3
assert list(DataLoader(Slow(8, 0.001))) == list(range(8))
calls = dict(cuda.calls)
list(DataLoader(Slow(2, 0.001)))
assert cuda.calls == calls and cuda.trespasses == []
"""
    )
    ring = gpu_job.ring()
    assert ring.failed == 1
    assert len(ring.batches) == 10
    assert ring.state == 2


def test_what_was_wrapped_is_put_back_and_events_are_freed(gpu_job: Job) -> None:
    gpu_job.ok(
        HEAD
        + """
import gc, sys, weakref
import torch.optim.optimizer as optim
from torch.cuda.graphs import CUDAGraph
from slurm_io_hook import gpu_idle, late
assert CUDAGraph.capture_begin.__wrapped__ and CUDAGraph.capture_end.__wrapped__
cuda.init()
batches = iter(DataLoader(Slow(8)))
next(batches), next(batches)
[pool] = gpu_idle.GPU._pairs._free.values()
event = weakref.ref(pool[0].start)
del pool
assert len(optim._global_optimizer_post_hooks) == 2
assert late.leave() == "left"
assert not hasattr(CUDAGraph.capture_begin, "__wrapped__")
assert len(optim._global_optimizer_post_hooks) == 0
calls = dict(cuda.calls)
next(batches)
gc.collect()
assert cuda.calls == calls and event() is None
assert late.join(os.environ["SLURM_IO_RING_DIR"]) == "loaded"
batches = iter(DataLoader(Slow(8)))
next(batches), next(batches)
assert cuda.calls["event.record"] > calls["event.record"]
"""
    )
