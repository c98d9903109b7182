"""The program under test of training_slowdown.py: a small torch training that measures itself.

    python train_loop.py OUT.json STEPS GPU_MS

Twice the same loop, with 0 and with 2 loader workers. A sleep stands for the GPU; forward, backward
and the optimizer's step are real. It knows nothing of slurm_io.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

BATCH_SIZE = 32
FEATURES = 256
WARM_UP_STEPS = 20


class Samples(Dataset[torch.Tensor]):
    """Items that cost some CPU to make, as decoding does."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.source = torch.rand(4096)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        start = index % (4096 - FEATURES)
        return self.source[start : start + FEATURES].sqrt()


def cpu_s(who: int) -> float:
    """User and system time so far."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def parts(workers: int, steps: int) -> tuple[Any, Any, Any]:
    """Model, optimizer and a loader of `steps` batches."""
    model = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    return (
        model,
        optimizer,
        DataLoader(Samples(steps * BATCH_SIZE), BATCH_SIZE, num_workers=workers),
    )


def compute(model: Any, optimizer: Any, batch: torch.Tensor) -> None:
    """Forward, backward and the optimizer's step."""
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def train(workers: int, steps: int, gpu_s: float) -> dict[str, float]:
    """One epoch of `steps` steps; what it cost, the warm-up left out of the medians."""
    model, optimizer, loader = parts(workers, steps)
    cpu_ns, wall_ns = [], []
    children_s = cpu_s(resource.RUSAGE_CHILDREN)
    self_s, began_s = cpu_s(resource.RUSAGE_SELF), time.monotonic()
    step_cpu_ns, step_wall_ns = time.process_time_ns(), time.monotonic_ns()
    for batch in loader:
        compute(model, optimizer, batch)
        time.sleep(gpu_s)
        now_cpu_ns, now_wall_ns = time.process_time_ns(), time.monotonic_ns()
        cpu_ns.append(now_cpu_ns - step_cpu_ns)
        wall_ns.append(now_wall_ns - step_wall_ns)
        step_cpu_ns, step_wall_ns = now_cpu_ns, now_wall_ns
    wall_s = time.monotonic() - began_s
    rank_s = cpu_s(resource.RUSAGE_SELF) - self_s
    workers_s = cpu_s(resource.RUSAGE_CHILDREN) - children_s  # they were waited for
    return {
        "tree_cpu_ms": 1e3 * (rank_s + workers_s) / steps,
        "rank_cpu_ms": statistics.median(cpu_ns[WARM_UP_STEPS:]) / 1e6,
        "rank_cpu_quiet_ms": statistics.quantiles(cpu_ns[WARM_UP_STEPS:], n=10)[0] / 1e6,
        "wall_ms": statistics.median(wall_ns[WARM_UP_STEPS:]) / 1e6,
        "wall_mean_ms": 1e3 * wall_s / steps,
    }


def main() -> None:
    """Train and leave the figures."""
    out, steps, gpu_ms = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    found = {str(workers): train(workers, steps, gpu_ms / 1e3) for workers in (0, 2)}
    total_s = cpu_s(resource.RUSAGE_SELF) + cpu_s(resource.RUSAGE_CHILDREN)
    with open(out, "w") as file:
        json.dump({"loops": found, "cpu_s": total_s}, file)


if __name__ == "__main__":
    main()
