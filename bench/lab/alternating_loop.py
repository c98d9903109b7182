"""What the hook adds to a step of a real loop: steps with and without it take turns in one process.

    SLURM_IO_RING_DIR=… python alternating_loop.py OUT.json STEPS GPU_MS

The model of train_loop.py, the hook attached, batches that cost nothing to make. Each step tosses a
coin: the hooked `__next__` and torch's post-step hooks, or what lies below them. Timed are only the
calls the hook is in, `__next__` and `optimizer.step`; what lies between them (forward, backward, a
sleep) leaves the caches as a training does. The difference of the medians is the hook.
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer
from torch.utils.data import DataLoader, IterableDataset
from train_loop import BATCH_SIZE, FEATURES, WARM_UP_STEPS, parts


class Ready(IterableDataset[torch.Tensor]):
    """One batch again and again."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        return itertools.repeat(torch.rand(BATCH_SIZE, FEATURES))


def main() -> None:
    """Leave the CPU time of the two calls, with and without."""
    out, steps, gpu_ms = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(1)
    model, optimizer, _ = parts(0, 1)
    batches = iter(DataLoader(Ready(), batch_size=None))
    hooked = type(batches).__next__
    ways = {True: hooked, False: hooked.__wrapped__}
    after_step = torch_optimizer._global_optimizer_post_hooks
    ours = dict(after_step)
    if not ours:
        raise SystemExit("the hook is not attached: nothing to compare")
    spent: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    toss = random.Random(1)
    for number in range(steps):
        is_hooked = toss.random() < 0.5
        next_batch = ways[is_hooked]
        after_step.clear()
        after_step.update(ours if is_hooked else {})
        time.sleep(gpu_ms / 1e3)
        next_ns, batch = timed(lambda call=next_batch: call(batches))
        model(batch).square().mean().backward()
        step_ns, _ = timed(optimizer.step)
        optimizer.zero_grad()
        if number >= WARM_UP_STEPS:
            spent[is_hooked].append((next_ns, step_ns))
    found = {"next": added([n for n, _ in spent[True]], [n for n, _ in spent[False]])}
    found["step"] = added([s for _, s in spent[True]], [s for _, s in spent[False]])
    with open(out, "w") as file:
        json.dump(found, file)


def timed(call: Callable[[], Any]) -> tuple[int, Any]:
    """CPU ns of the call, and what it gave."""
    began_ns = time.thread_time_ns()
    result = call()
    return time.thread_time_ns() - began_ns, result


def added(hooked_ns: list[int], bare_ns: list[int]) -> dict[str, float]:
    """µs: the bare call, what the hook adds in the median and in the quiet tenth, their error."""
    return {
        "bare_us": statistics.median(bare_ns) / 1e3,
        "median_us": (statistics.median(hooked_ns) - statistics.median(bare_ns)) / 1e3,
        "quiet_us": (tenth(hooked_ns) - tenth(bare_ns)) / 1e3,
        "error_us": (error_of_median(hooked_ns) ** 2 + error_of_median(bare_ns) ** 2) ** 0.5 / 1e3,
    }


def tenth(values: list[int]) -> float:
    """The value a tenth of them is below."""
    return statistics.quantiles(values, n=10)[0]


def error_of_median(values: list[int]) -> float:
    """Standard error, from the ranks beside the middle: stragglers have no say in it."""
    ordered, half_width = sorted(values), len(values) ** 0.5 / 2
    middle = len(values) / 2
    return (ordered[int(middle + half_width)] - ordered[int(middle - half_width)]) / 2


if __name__ == "__main__":
    main()
