"""What one sampler costs beside 8 ranks and 64 loader workers, and beside 4 and 10 times as many.

    python bench/sampler_cost.py [--seconds 30] [--times 1,4,10] [--budget 0.003] [--threads 2]

The job is bench/lab/crew.py. CPU by the scheduler's own count, children included; peak RSS; bytes
passed to write calls. Two windows: the first seconds of a job, which are sampled at full rate on
credit, and a later one, when the governor has brought the sampler to its budget. Then, from
self.json, where the CPU goes (start included) and what the governor slowed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from lab.job import Cost, costs_of, crew, sampler

SETTLE_S = 8
BETWEEN_S = 45  # the credit is spent, and the governor has had its second look
OURS = "slurm_io sampler"
BUDGET_MIB = 25


def main() -> None:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--times", default="1,4,10")
    parser.add_argument("--hz", type=float, default=20.0)
    parser.add_argument("--budget", type=float, default=0.003)
    options = parser.parse_args()
    for times in map(int, options.times.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            measure(options, Path(folder), times)


def measure(options: argparse.Namespace, folder: Path, times: int) -> None:
    """Start a job of that size, sample it, print."""
    spool, rings = folder / "spool", folder / "rings"
    spool.mkdir()
    rings.mkdir()
    sizes = (options.ranks, options.workers, options.threads)
    with (
        crew(rings, *sizes, times) as root_pid,
        sampler(spool, rings, root_pid, options.hz, options.budget) as pid,
    ):
        time.sleep(SETTLE_S)
        first = costs_of({OURS: pid}, lambda: time.sleep(options.seconds))[OURS]
        time.sleep(BETWEEN_S)
        later = costs_of({OURS: pid}, lambda: time.sleep(options.seconds))[OURS]
    print(f"== {options.ranks * times} ranks + {options.workers * times} workers")
    print_costs(first, later, options)
    print_sources(spool)


def print_costs(first: Cost, later: Cost, options: argparse.Namespace) -> None:
    """Both windows and the budgets."""
    print(f"{f'{options.seconds} s each':32}{'CPU ms/s':>10}{'RSS MiB':>10}{'bytes/s':>10}")
    for name, cost in (("the first, on credit", first), ("later, governed", later)):
        figures = f"{cost.cpu_ms:10.2f}{cost.rss_peak_mib:10.1f}{cost.written_bytes:10.0f}"
        print(f"{name:32}{figures}")
    budget_ms = 1000 * options.budget
    print(
        f"budget {budget_ms:.1f} ms/s: {kept(later.cpu_ms <= budget_ms)}; "
        f"{BUDGET_MIB} MiB: {kept(later.rss_peak_mib <= BUDGET_MIB)}"
    )


def kept(is_kept: bool) -> str:
    """In a word."""
    return "kept" if is_kept else "MISSED"


def print_sources(spool: Path) -> None:
    """What self.json and the streams say."""
    own = json.loads((spool / "self.json").read_text())
    meta = json.loads((spool / "meta.json").read_text())
    print(f"cpu           {1000 * own['cpu_s'] / own['wall_s']:.2f} ms/s with the start")
    print(f"passes        {own['waits_passes']}, {own['waits_hz']} Hz at the end")
    print(f"seen          {len(meta['ranks'])} ranks, {meta['workers_seen']} workers")
    for name, use in own["collectors"].items():
        runs = max(1, use["runs"])
        if use["cpu_s"] / own["wall_s"] < 1e-5:
            continue
        print(
            f"  {name:13} {use['runs']:5} runs {1e6 * use['cpu_s'] / runs:8.0f} µs each"
            f" {1e3 * use['cpu_s'] / own['wall_s']:7.2f} ms/s"
        )
    for table, rows in own["rows"].items():
        size = sum(path.stat().st_size for path in spool.glob(f"{table}*.arrows"))
        print(f"  {table:13} {rows:6} rows {size / max(1, rows):8.0f} bytes each")
    governor = own["governor"]
    print(f"governor      paces {governor['paces']}")
    for change in governor["changes"]:
        paces = f"{change['source']} {change['from']} -> {change['to']}"
        print(f"  at {change['mono_s']:.0f} s: {paces}, {1000 * change['share']:.1f} ms/s")
    print()


if __name__ == "__main__":
    main()
