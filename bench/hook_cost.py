"""What the hook costs a training step (a `__next__` and an optimizer step), beside known figures.

    python bench/hook_cost.py [--rounds 60] [--json]

A fake iterator class is wrapped as the hook wraps torch's; the plain and the wrapped class take
turns, so that a slow moment of the machine falls on both. CPU time of the thread, medians over the
rounds. Beside it: two bare clock reads, and (with torch) torch.profiler.record_function, which
torch itself puts around every `__next__` and every optimizer step.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

CALLS = 2000


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
    from slurm_io.hook import torch_loader, torch_optim

    class Wrapped(FakeIterator):
        __next__ = torch_loader.wrap_next(FakeIterator.__next__)

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


def interleaved(calls: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Costs of each call in every round, in turns."""
    costs: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            costs[name].append(cost_ns(call))
    return costs


def difference(costs: dict[str, list[float]], name: str, base: str) -> float:
    """Median over the rounds of what `name` costs more than `base` in the same round."""
    return statistics.median(a - b for a, b in zip(costs[name], costs[base], strict=True))


def measure(rounds: int) -> dict[str, Any]:
    """All figures, in ns, and the hook's as a multiple of the others."""
    calls = {"plain": plain_step(), "hooked": hooked_step(), "empty": empty, "clock": clock_pair}
    mark = record_function()
    if mark is not None:
        calls["record_function"] = mark
    costs = interleaved(calls, rounds)
    best = min(a - b for a, b in zip(costs["hooked"], costs["plain"], strict=True))
    hook = difference(costs, "hooked", "plain")
    clock = difference(costs, "clock", "empty")
    result: dict[str, Any] = {
        "hook_ns_per_step": round(hook),
        "hook_ns_per_step_best_round": round(best),
        "clock_pair_ns": round(clock),
        "hook_per_clock_pair": round(hook / clock, 2),
        "record_function_ns": None,
        "hook_per_record_function": None,
    }
    if mark is not None:
        marked = difference(costs, "record_function", "empty")
        result["record_function_ns"] = round(marked)
        result["hook_per_record_function"] = round(hook / marked, 2)
    return result


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ["SLURM_IO_RING_DIR"] = folder
        result = measure(options.rounds)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:32} {'-' if value is None else value}")


if __name__ == "__main__":
    main()
