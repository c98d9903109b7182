"""What one sampler costs beside 8 ranks and 64 loader workers, and its peers in the same run.

    python bench/sampler_cost.py [--seconds 30] [--threads 2] [--no-peers]

The job is bench/lab/crew.py. Sampler, iostat, pidstat and node_exporter watch it at the same time,
once a second (the sampler looks at waits several times more). CPU by the scheduler's own count
between two moments after everybody's start, children included; peak RSS; bytes passed to write
calls. Then where the sampler's CPU goes, as it says itself in self.json (its start included).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lab.peers import (
    cpu_s,
    installed_peers,
    rss_peak_bytes,
    running,
    scrape_each_second,
    written_bytes,
)

from slurm_io.model import JobIdentity, SamplerSpec

CREW = Path(__file__).parent / "lab" / "crew.py"
SETTLE_S = 8
OURS = "slurm_io sampler"
BUDGET_MS, BUDGET_MIB = 3.0, 25


@dataclass(frozen=True)
class Cost:
    """What a watcher used for one sample a second."""

    cpu_ms: float
    rss_peak_mib: float
    written_bytes: float


def main() -> None:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--hz", type=float, default=10.0)
    parser.add_argument("--budget", type=float, default=0.003)
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(options, Path(folder))


def measure(options: argparse.Namespace, folder: Path) -> None:
    """Start the job, sample it, print."""
    spool, rings = folder / "spool", folder / "rings"
    spool.mkdir()
    rings.mkdir()
    sizes = map(str, (options.ranks, options.workers, options.threads))
    crew = subprocess.Popen(
        [sys.executable, str(CREW), str(rings), *sizes], start_new_session=True
    )  # fmt: skip
    try:
        time.sleep(3)
        costs = watch(options, spool, rings, crew.pid)
    finally:
        os.killpg(crew.pid, signal.SIGKILL)
        crew.wait()
    print_costs(costs, options.seconds)
    print_sources(spool)


def watch(options: argparse.Namespace, spool: Path, rings: Path, root_pid: int) -> dict[str, Cost]:
    """Sampler and peers over the job; what each used."""
    spec = SamplerSpec(
        job=JobIdentity("bench", "1", 0, "bench", os.getuid()), node="here", mode="user",
        spool=str(spool), ring_dir=str(rings), root_pid=root_pid, waits_hz=options.hz,
        budget_share=options.budget,
    )  # fmt: skip
    (spool / "sampler.json").write_text(json.dumps(spec.to_dict()))
    sampler = subprocess.Popen([sys.executable, "-m", "slurm_io.sampler", str(spool)])
    peers = () if options.no_peers else installed_peers(options.seconds + SETTLE_S)
    try:
        with running(peers) as pids:
            pids = {OURS: sampler.pid} | pids
            scrape_each_second(peers, SETTLE_S)
            before = {name: (cpu_s(pid), written_bytes(pid)) for name, pid in pids.items()}
            began_s = time.monotonic()
            scrape_each_second(peers, options.seconds)
            costs = {
                name: cost_since(before[name], pid, time.monotonic() - began_s)
                for name, pid in pids.items()
            }
        sampler.send_signal(signal.SIGTERM)
        sampler.wait(10)
    finally:
        sampler.kill()
        sampler.wait()
    return costs


def cost_since(before: tuple[float, int], pid: int, seconds: float) -> Cost:
    """What a process used in each of the last `seconds`."""
    used_s, written = cpu_s(pid) - before[0], written_bytes(pid) - before[1]
    return Cost(1000 * used_s / seconds, rss_peak_bytes(pid) / 2**20, written / seconds)


def print_costs(costs: dict[str, Cost], seconds: int) -> None:
    """The table, each peer as a multiple of ours, and the budget."""
    ours = costs[OURS]
    head = f"{'CPU ms/sample':>14}{'RSS MiB':>10}{'bytes/sample':>14}{'CPU / ours':>12}"
    print(f"{f'{seconds} s at 1 Hz':32}{head}")
    for name, cost in costs.items():
        print(
            f"{name:32}{cost.cpu_ms:14.2f}{cost.rss_peak_mib:10.1f}{cost.written_bytes:14.0f}"
            f"{cost.cpu_ms / ours.cpu_ms:12.2f}"
        )
    total_ms = sum(cost.cpu_ms for name, cost in costs.items() if name != OURS)
    if total_ms:
        print(f"{'all peers together':32}{total_ms:14.2f}{'':24}{total_ms / ours.cpu_ms:12.2f}")
    print(
        f"budget {BUDGET_MS} ms: {kept(ours.cpu_ms <= BUDGET_MS)}; "
        f"{BUDGET_MIB} MiB: {kept(ours.rss_peak_mib <= BUDGET_MIB)}\n"
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
        print(
            f"  {name:13} {use['runs']:5} runs {1e6 * use['cpu_s'] / runs:8.0f} µs each"
            f" {1e3 * use['cpu_s'] / own['wall_s']:7.2f} ms/s"
        )
    for table, rows in own["rows"].items():
        size = sum(path.stat().st_size for path in spool.glob(f"{table}*.arrows"))
        print(f"  {table:13} {rows:6} rows {size / max(1, rows):8.0f} bytes each")
    print(f"governor      level {own['governor']['level']}: {own['governor']['changes']}")


if __name__ == "__main__":
    main()
