"""The GPU-side measuring on a real GPU (CUDA or ROCm): does it say what the GPU did?

Skipped where torch finds none. Under a minute. `pytest tests/gpu -s` prints what a step pays here:
the one figure that no stand-in can give.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hook.ring_reader import RingFile
from tests.hook.scripts import Job

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.torch,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here"),
]
PASSED_ON = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
             "ROCR_VISIBLE_DEVICES", "CUDA_HOME")  # fmt: skip
WAIT_NS = 30_000_000
HEAD = """
import os, sys, threading, time, json
import torch
from torch.utils.data import DataLoader

class Slow(torch.utils.data.Dataset):
    def __init__(self, number, seconds=0.03): self.number, self.seconds = number, seconds
    def __len__(self): return self.number
    def __getitem__(self, n):
        if n >= self.number: raise IndexError
        time.sleep(self.seconds)
        return torch.tensor([float(n)])

torch.cuda.init()
torch.zeros(8, device="cuda")
torch.cuda.synchronize()

def cycles_a_ms():
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(2):  # the first one wakes the clocks
        begin.record(); torch.cuda._sleep(50_000_000); end.record(); end.synchronize()
    return 50_000_000 / begin.elapsed_time(end)

A_MS = cycles_a_ms()
def work(ms): torch.cuda._sleep(int(ms * A_MS))
def batches(number, **more): return DataLoader(Slow(number, **more), batch_size=None)
"""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return Job(tmp_path, python=sys.executable, env=env)


def run(job: Job, script: str) -> tuple[RingFile, str]:
    """(ring, stdout) of the script, which must end well."""
    done = job.run(HEAD + script)
    assert done.returncode == 0, done.stderr
    ring = job.ring()
    assert (ring.dropped, ring.failed) == (0, 0)
    return ring, done.stdout


def idle_ns(ring: RingFile) -> dict[int, int]:
    """Batch -> idle time, known at once or later."""
    later = {wait.index: wait.idle for wait in ring.gpu_waits}
    return later | {batch.index: batch.gpu_idle for batch in ring.batches if batch.gpu_idle >= 0}


def test_an_idle_gpu_is_idle_for_the_whole_wait(job: Job) -> None:
    ring, _ = run(job, "for _ in batches(20): torch.cuda.synchronize()")
    found = idle_ns(ring)
    assert len(found) >= 18
    for batch in ring.batches[1:-1]:
        assert batch.end - batch.start - found[batch.index] < 1_000_000


def test_a_queue_longer_than_the_wait_hides_it(job: Job) -> None:
    ring, _ = run(job, "for _ in batches(20): work(200)")
    found = idle_ns(ring)
    assert [found[batch.index] for batch in ring.batches[1:]] == [0] * 19


def test_a_queue_shorter_than_the_wait_hides_a_part(job: Job) -> None:
    ring, _ = run(
        job,
        """
for _ in batches(20):
    torch.cuda.synchronize()
    work(10)
""",
    )
    found = idle_ns(ring)
    rests = [batch.end - batch.start - found[batch.index] for batch in ring.batches[1:-1]]
    assert statistics.median(rests) == pytest.approx(10_000_000, rel=0.2)


def test_work_on_the_default_stream_counts_while_another_is_current(job: Job) -> None:
    ring, _ = run(
        job,
        """
side = torch.cuda.Stream()
loader = iter(batches(12))
for _ in range(12):
    with torch.cuda.stream(side): next(loader)
    work(200)
""",
    )
    found = idle_ns(ring)
    assert [found[batch.index] for batch in ring.batches[1:]] == [0] * 11


def test_a_loop_that_trains_on_a_stream_of_its_own_is_asked_about_that_one(job: Job) -> None:
    ring, _ = run(
        job,
        """
weight = torch.nn.Parameter(torch.zeros(8, device="cuda"))
weight.grad = torch.zeros_like(weight)
optimizer = torch.optim.SGD([weight], lr=0.1)
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
for _ in batches(12):
    with torch.cuda.stream(side):
        optimizer.step()
        work(200)
""",
    )
    found = idle_ns(ring)
    # Before the first wait no optimizer had stepped; from the second on it has.
    assert [found[batch.index] for batch in ring.batches[1:]] == [0] * 11


def test_captures_succeed_on_this_and_on_another_thread(job: Job) -> None:
    ring, _ = run(
        job,
        """
x = torch.zeros(8, device="cuda")
side = torch.cuda.Stream()
for _ in range(3):
    x += 1
torch.cuda.synchronize()
loader = iter(batches(20))
next(loader)
graph = torch.cuda.CUDAGraph()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    graph.capture_begin(capture_error_mode="global")
    next(loader); x += 1; next(loader)
    graph.capture_end()
before = x.clone(); graph.replay(); torch.cuda.synchronize()
assert (x == before + 1).all()

begun, read = threading.Event(), threading.Event()
trouble = []
def capture():
    other, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    y = torch.zeros(8, device="cuda")
    try:
        with torch.cuda.graph(other, stream=stream):
            y += 1
            begun.set(); read.wait(20)
    except Exception as error:
        trouble.append(repr(error))
    begun.set()
thread = threading.Thread(target=capture); thread.start()
begun.wait(20)
for _ in range(4): next(loader)
read.set(); thread.join()
assert trouble == [], trouble
for _ in loader: pass
""",
    )
    assert ring.skipped == 6
    assert len(idle_ns(ring)) >= 12


def test_what_a_step_pays_here(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    """The loop with and without measuring, in turns; CPU time of the thread."""
    _, said = run(
        job,
        """
from slurm_io_hook import gpu_idle
def a_step(number, busy):
    loader = iter(batches(number, seconds=0.0))
    next(loader)
    if busy: work(200)
    else: torch.cuda.synchronize()
    begin = time.thread_time_ns()
    for _ in range(number - 2): next(loader)
    spent = (time.thread_time_ns() - begin) / (number - 2)
    torch.cuda.synchronize()
    return spent
gpu_idle.SHORTEST_NS = 0
costs = {}
for _ in range(15):
    for busy in (True, False):
        for measured in (True, False):
            gpu_idle.GPU.captures = int(not measured)
            costs.setdefault("%s %s" % (busy, measured), []).append(a_step(300, busy))
gpu_idle.GPU.captures = 0
print(json.dumps(costs))
""",
    )
    costs: dict[str, list[Any]] = json.loads(said)
    least = {name: min(each) for name, each in costs.items()}
    busy = least["True True"] - least["True False"]
    idle = least["False True"] - least["False False"]
    with capsys.disabled():
        print(
            f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}: measuring costs a step "
            f"{busy / 1e3:.1f} us while the GPU is busy, {idle / 1e3:.1f} us while it is idle"
        )
    assert max(busy, idle) < 100_000, "a step pays more than 0.1 ms"
