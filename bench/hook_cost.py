"""What the hook costs a training step (a `__next__` and an optimizer step), beside known figures.

    python bench/hook_cost.py [--rounds 1500] [--json]

A fake iterator class is wrapped as the hook wraps torch's; the plain and the wrapped class take
turns in short rounds on one CPU. CPU time of the thread: least and median over the rounds. Other
load on the same core or its hyperthread makes all of them slower alike, so a loop of bare Python
runs in turns as well: its median over its least says how disturbed the medians are. Beside it: two
clock reads, and (with torch) torch.profiler.record_function, which torch itself puts around every
`__next__` and every optimizer step.

Two more kinds of step, in processes of their own: with CUDA in use, the GPU busy with the step
before (`gpu_busy`) or idle (`gpu_idle`). Events and streams are stand-ins that do next to nothing,
so these are the hook's own part; what torch and the driver take for theirs only a GPU can tell
(tests/gpu).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
import types
from collections.abc import Callable
from typing import Any

CALLS = 250
BUDGET_NS = 2000


class FakeIterator:
    """The cheapest possible loader."""

    def __iter__(self) -> FakeIterator:
        return self

    def __next__(self) -> int:
        return 1


class FakeLoader:
    """Makes `kind` iterators."""

    num_workers = 2

    def __init__(self, kind: type[FakeIterator]) -> None:
        self.kind = kind

    def __iter__(self) -> FakeIterator:
        return self.kind()


def hooked_step() -> Callable[[], None]:
    """A step with the hook: the wrapped `__next__`, then the optimizer's post-step hook."""
    from slurm_io.hook import clock, torch_loader, torch_optim

    class Wrapped(FakeIterator):
        __next__ = clock.wrap_next(FakeIterator.__next__, torch_loader.adopt)

    class WrappedLoader(FakeLoader):
        __iter__ = torch_loader.wrap_iter(FakeLoader.__iter__)

    iterator = iter(WrappedLoader(Wrapped))
    after_step = torch_optim.step_counter()

    def step() -> None:
        next(iterator)
        after_step(None, (), {})

    return step


def plain_step() -> Callable[[], None]:
    """The same without the hook; torch calls no post-step hook then."""
    iterator = iter(FakeLoader(FakeIterator))

    def step() -> None:
        next(iterator)

    return step


def clock_pair() -> None:
    """Two bare clock reads, the least that any timing costs."""
    time.perf_counter_ns()
    time.perf_counter_ns()


def empty() -> None:
    """A call that does nothing: subtracted from the clock pair and the record_function."""


def record_function() -> Callable[[], None] | None:
    """torch's own marker around nothing, or None without torch."""
    try:
        from torch.autograd.profiler import record_function as mark
    except ImportError:
        return None

    def marked() -> None:
        with mark("bench"):
            pass

    return marked


def cost_ns(call: Callable[[], None]) -> float:
    """CPU ns of one call, over CALLS of them."""
    before = time.thread_time_ns()
    for _ in range(CALLS):
        call()
    return (time.thread_time_ns() - before) / CALLS


def reference() -> None:
    """Bare Python that reads no clock and makes no call."""
    total = 0
    for _ in range(20):
        total += 3


def interleaved(calls: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Costs of each call in every round, in turns."""
    costs: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            costs[name].append(cost_ns(call))
    return costs


def least_and_median(costs: dict[str, list[float]], name: str, base: str) -> dict[str, int]:
    """What `name` costs more than `base`, in ns: between the least of both, and the medians."""
    return {
        "least": round(min(costs[name]) - min(costs[base])),
        "median": round(statistics.median(costs[name]) - statistics.median(costs[base])),
    }


class FreeEvent:
    """An event that costs a call and nothing else. `is_done` of a first event: the GPU is idle."""

    is_done = True

    def __init__(self, enable_timing: bool) -> None:
        self.timing = enable_timing

    def record(self, stream: object) -> None:
        """As if."""

    def query(self) -> bool:
        """Complete, or not."""
        return self.is_done

    def elapsed_time(self, end: FreeEvent) -> float:
        """Milliseconds."""
        return 0.5


def use_free_cuda(gpu_is_idle: bool) -> None:
    """Put a torch.cuda of free calls where the hook looks for one."""
    stream = types.SimpleNamespace(device=0, cuda_stream=0)
    FreeEvent.is_done = gpu_is_idle
    cuda: Any = types.ModuleType("torch.cuda")
    cuda.__dict__.update(
        _initialized=True, is_initialized=lambda: True, Event=FreeEvent,
        current_stream=lambda: stream, default_stream=lambda device: stream,
        is_current_stream_capturing=lambda: False,
    )  # fmt: skip
    sys.modules["torch.cuda"] = cuda
    sys.modules["torch._C"] = types.SimpleNamespace(_cuda_getDeviceCount=len)  # type: ignore[assignment]


def with_cuda(rounds: int, gpu_is_idle: bool) -> dict[str, int]:
    """What a step costs more than a plain one, with CUDA in use. In a process of its own."""
    use_free_cuda(gpu_is_idle)
    if gpu_is_idle:
        from slurm_io.hook import gpu_idle

        gpu_idle.SHORTEST_NS = 0  # the fake loader's waits are shorter than any real one
    costs = interleaved({"plain": plain_step(), "hooked": hooked_step()}, rounds)
    return least_and_median(costs, "hooked", "plain")


def in_a_process(rounds: int, gpu_is_idle: bool) -> dict[str, int]:
    """:func:`with_cuda` where no torch was imported."""
    with multiprocessing.get_context("spawn").Pool(1, stay_on_one_cpu) as pool:
        return pool.apply(with_cuda, (rounds, gpu_is_idle))


def measure(rounds: int) -> dict[str, Any]:
    """All figures."""
    calls = {
        "plain": plain_step(), "hooked": hooked_step(), "empty": empty, "clock": clock_pair,
        "reference": reference,
    }  # fmt: skip
    mark = record_function()
    if mark is not None:
        calls["record_function"] = mark
    costs = interleaved(calls, rounds)
    disturbance = statistics.median(costs["reference"]) / min(costs["reference"])
    return {
        "hook_ns_per_step": least_and_median(costs, "hooked", "plain"),
        "clock_pair_ns": least_and_median(costs, "clock", "empty"),
        "record_function_ns": mark and least_and_median(costs, "record_function", "empty"),
        "gpu_busy_ns_per_step": in_a_process(rounds, gpu_is_idle=False),
        "gpu_idle_ns_per_step": in_a_process(rounds, gpu_is_idle=True),
        "reference_median_over_least": round(disturbance, 2),
    }


def stay_on_one_cpu() -> None:
    """The thread's CPU caches stay its own; nothing is moved in the middle of a round."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def print_table(result: dict[str, Any]) -> None:
    """Nanoseconds, and how many times each the hook costs."""
    hook = result["hook_ns_per_step"]
    print(f"{'':26}{'least':>8}{'median':>8}   ns")
    for name in (
        "hook_ns_per_step", "gpu_busy_ns_per_step", "gpu_idle_ns_per_step", "clock_pair_ns",
        "record_function_ns",
    ):  # fmt: skip
        if result[name] is None:
            print("torch is not installed: record_function not measured")
            continue
        print(f"{name:26}{result[name]['least']:8}{result[name]['median']:8}")
    for name in ("clock_pair_ns", "record_function_ns"):
        if result[name] is not None:
            print(
                f"hook / {name:19}{hook['least'] / result[name]['least']:8.2f}"
                f"{hook['median'] / result[name]['median']:8.2f}"
            )
    told = {name: "kept" if value <= BUDGET_NS else "MISSED" for name, value in hook.items()}
    print(f"budget {BUDGET_NS} ns: least {told['least']}, median {told['median']}")
    print(f"bare Python beside it: median {result['reference_median_over_least']} times its least")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1500)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    options = parser.parse_args()
    stay_on_one_cpu()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ["SLURM_IO_RING_DIR"] = folder
        result = measure(options.rounds)
    if options.json:
        print(json.dumps(result))
        return
    print_table(result)


if __name__ == "__main__":
    main()
