"""Does slurm_io slow training down? The same torch loop plain and under `slurm-io run`, in turns.

    python bench/training_slowdown.py [--rounds 5] [--steps 100] [--gpu-ms 5] [--json]

Each round runs the loop three times, in an order that rotates: plain, plain again (their ratio is
the noise floor of this machine), and under `slurm-io run`. Compared per step: CPU of the training
process tree (rank and loader workers); CPU of the rank in its median step, and in the quietest
tenth (other load moves these less); wall time, median and mean. Sampler and wrapper are no part of
the training's CPU; theirs is printed apart, the wrapper's with sealing and report after the end.

Before that, finer than whole runs can be compared: the hook's share of a step, from one process in
which steps with and without it take turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import slurm_io

LAB = Path(__file__).parent / "lab"
ATTACH = Path(slurm_io.__file__).parent / "hook" / "attach"
VARIANTS = ("plain", "again", "run")
FIGURES = ("tree_cpu_ms", "rank_cpu_ms", "rank_cpu_quiet_ms", "wall_ms", "wall_mean_ms")
BUDGET_SHARE = 0.005


def main() -> int:
    """Run the rounds and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--gpu-ms", type=float, default=5.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed: not measured")
        return 0
    hook = alternate(options)
    rounds = [one_round(number, options) for number in range(options.rounds)]
    if options.json:
        print(json.dumps({"hook": hook, "rounds": rounds}))
    else:
        steps_ms = [one["plain"]["loops"]["0"]["rank_cpu_ms"] for one in rounds]
        print_hook(hook, statistics.median(steps_ms))
        print(f"\n{options.rounds} rounds of {options.steps} steps, {options.gpu_ms:g} ms GPU each")
        print_training(rounds)
        print_own_cost(rounds, options.steps)
    return 0


def alternate(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """What the hook adds to its two calls, in one process; its ring in memory, as always."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        out = Path(folder) / "out.json"
        program, steps = str(LAB / "alternating_loop.py"), str(20 * options.steps)
        environment = {
            **os.environ, "SLURM_IO_RING_DIR": folder,
            "PYTHONPATH": os.pathsep.join(
                filter(None, (str(ATTACH), os.environ.get("PYTHONPATH", "")))
            ),
        }  # fmt: skip
        subprocess.run(
            [sys.executable, program, str(out), steps, "1"], env=environment, check=True
        )  # fmt: skip
        found: dict[str, dict[str, float]] = json.loads(out.read_text())
        return found


def print_hook(hook: dict[str, dict[str, float]], step_ms: float) -> None:
    """What the hook adds to a step, in microseconds and as a share of the plain rank's step."""
    print("the hook in a real loop, caches as a training leaves them (one process, in turns):")
    for call, name in (("next", "__next__"), ("step", "optimizer.step")):
        cost = hook[call]
        print(
            f"  {name:16}{cost['bare_us']:8.1f} µs without, {cost['median_us']:6.1f}"
            f" ± {cost['error_us']:.1f} more in the median, {cost['quiet_us']:.1f} in a quiet tenth"
        )
    added_ms = hook["next"]["median_us"] / 1e3
    print(
        f"  __next__ is {100 * added_ms / step_ms:.2f} % of a step of {step_ms:.2f} ms CPU;"
        f" it stays below {100 * BUDGET_SHARE} % from {added_ms / BUDGET_SHARE:.1f} ms on"
    )


def one_round(number: int, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """All variants once; each comes first, second and last equally often."""
    shift = number % len(VARIANTS)
    order = VARIANTS[shift:] + VARIANTS[:shift]
    return {variant: run_once(variant, options) for variant in order}


def run_once(variant: str, options: argparse.Namespace) -> dict[str, Any]:
    """One training: what it measured of itself, and in `run` what sampler and wrapper cost."""
    with tempfile.TemporaryDirectory(prefix="training_slowdown-") as folder:
        out, store = Path(folder) / "out.json", Path(folder) / "store"
        training = [sys.executable, str(LAB / "train_loop.py"), str(out), str(options.steps)]
        training.append(str(options.gpu_ms))
        if variant == "run":
            training = [sys.executable, "-m", "slurm_io", "run", "-o", str(store), "--", *training]
        process = subprocess.Popen(training, stdout=subprocess.DEVNULL, cwd=folder)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"the training ended with exit code {process.returncode}")
        measured: dict[str, Any] = json.loads(out.read_text())
        if variant == "run":
            own = json.loads(next(store.glob("node=*/self.json")).read_text())
            measured["sampler"] = own
            measured["wrapper_s"] = (
                used.ru_utime + used.ru_stime - measured["cpu_s"]
                - own["cpu_s"] - own["children_cpu_s"]
            )  # fmt: skip
        return measured


def print_training(rounds: list[dict[str, dict[str, Any]]]) -> None:
    """Medians of each figure, the ratio to plain in the same round, and the noise floor beside."""
    print(f"{'per step':32}{'plain':>9}{'run':>9}{'run/plain':>11}{'plain/plain':>13}  (range)")
    for workers in ("0", "2"):
        for figure in FIGURES:
            plain, again, run = (
                [one[variant]["loops"][workers][figure] for one in rounds] for variant in VARIANTS
            )
            # Both plain runs count as base: the noise of one of them alone would be in every ratio.
            base = [(a + b) / 2 for a, b in zip(plain, again, strict=True)]
            ratios = [a / b for a, b in zip(run, base, strict=True)]
            noise = [a / b for a, b in zip(again, plain, strict=True)]
            print(
                f"{workers} workers, {figure:21}{statistics.median(base):9.3f}"
                f"{statistics.median(run):9.3f}{statistics.median(ratios):11.4f}"
                f"{statistics.median(noise):13.4f}"
                f"  ({min(ratios):.3f}–{max(ratios):.3f}; plain {min(noise):.3f}–{max(noise):.3f})"
            )
    print(f"budget: run/plain of CPU at most {1 + BUDGET_SHARE}; no finer than plain/plain's range")


def print_own_cost(rounds: list[dict[str, dict[str, Any]]], steps: int) -> None:
    """What sampler and wrapper used, apart from the training."""
    runs = [one["run"] for one in rounds]
    sampler_s = [run["sampler"]["cpu_s"] + run["sampler"]["children_cpu_s"] for run in runs]
    walls_s = [run["sampler"]["wall_s"] for run in runs]
    per_s = [1e3 * cpu / wall for cpu, wall in zip(sampler_s, walls_s, strict=True)]
    print(
        f"\nsampler: {statistics.median(sampler_s):.3f} s CPU in {statistics.median(walls_s):.1f} s"
        f" with its start, {statistics.median(per_s):.1f} ms/s,"
        f" {1e3 * statistics.median(sampler_s) / (2 * steps):.3f} ms a step"
    )
    wrapper_s = statistics.median(run["wrapper_s"] for run in runs)
    print(f"wrapper with sealing and report: {wrapper_s:.2f} s CPU a job")


if __name__ == "__main__":
    sys.exit(main())
