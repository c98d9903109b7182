"""The sampler and what people use instead, in one run beside the same processes.

    python bench/sampler_peers.py [--seconds 30] [--times 1,4,10]

The job is bench/lab/crew.py: 8 ranks and 64 workers, or 4 and 10 times as many. Everybody samples
once a second: iostat, sadc (disks too), pidstat of exactly the job's processes, collectl with its
process table, node_exporter scraped. CPU by the scheduler's own count, children included, as a
multiple of ours; peak RSS; bytes passed to write calls. Ours runs for a minute first, so that its
governor has done its work; its first seconds are in bench/sampler_cost.py. A peer that is not
installed is named and left out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

from lab.job import Cost, costs_of, crew, processes_below, sampler
from lab.peers import Peer, free_port, running, scrape_each_second

OURS = "slurm_io sampler"
GOVERNED_AFTER_S = 70
SETTLE_S = 8
_SADC = ("/usr/lib/sysstat/sadc", "/usr/lib64/sa/sadc", "/usr/lib/sa/sadc")


def main() -> None:
    """Run it and print the table of each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--times", default="1,4,10")
    options = parser.parse_args()
    for times in map(int, options.times.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), times, options.seconds)


def measure(folder: Path, times: int, seconds: int) -> None:
    """One size."""
    spool, rings = folder / "spool", folder / "rings"
    spool.mkdir()
    rings.mkdir()
    with (
        crew(rings, 8, 64, 2, times) as root_pid,
        sampler(spool, rings, root_pid, 20, 0.003) as own,
    ):
        time.sleep(GOVERNED_AFTER_S)
        peers = installed(folder, processes_below(root_pid), seconds + SETTLE_S + 30)
        with running(peers) as pids:
            scrape_each_second(peers, SETTLE_S)
            costs = costs_of({OURS: own, **pids}, lambda: scrape_each_second(peers, seconds))
    print(f"== {8 * times} ranks + {64 * times} workers")
    print_table(costs)
    said = json.loads((spool / "self.json").read_text())
    print(f"governor of ours: {said['governor']['paces']}\n")


def installed(folder: Path, pids: list[int], seconds: int) -> tuple[Peer, ...]:
    """The peers that are here; a line is printed for each other."""
    port, count = free_port(), str(seconds)
    listed = ",".join(map(str, pids))
    wanted = (
        Peer("iostat -dxk", ("iostat", "-dxk", "1", count)),
        Peer("sadc -S DISK", (_found(_SADC), "-S", "DISK", "1", count, str(folder / "sadc"))),
        Peer(f"pidstat -dur, {len(pids)} pids", ("pidstat", "-dur", "-p", listed, "1", count)),
        Peer("collectl -scdnZ", ("collectl", "-scdnZ", "-i1:1", "-c", count, "-f", str(folder))),
        Peer(
            "node_exporter",
            (
                _found(("prometheus-node-exporter", "node_exporter")),
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=error",
            ),
            port,
        ),
    )
    for peer in wanted:
        if shutil.which(peer.argv[0]) is None:
            print(f"{peer.argv[0]} is not installed: not compared")
    return tuple(peer for peer in wanted if shutil.which(peer.argv[0]))


def _found(programs: tuple[str, ...]) -> str:
    """The first that is installed; the first of all when none is."""
    return next(filter(shutil.which, programs), Path(programs[0]).name)


def print_table(costs: dict[str, Cost]) -> None:
    """Each peer as a multiple of ours."""
    ours = costs[OURS]
    heads = ("CPU ms/s", "CPU / ours", "RSS MiB", "RSS / ours", "bytes/s")
    print(" " * 28 + "".join(f"{head:>12}" for head in heads))
    for name, cost in costs.items():
        cpu = f"{cost.cpu_ms:12.2f}{cost.cpu_ms / ours.cpu_ms:12.2f}"
        rss = f"{cost.rss_peak_mib:12.1f}{cost.rss_peak_mib / ours.rss_peak_mib:12.2f}"
        print(f"{name:28}{cpu}{rss}{cost.written_bytes:12.0f}")


if __name__ == "__main__":
    main()
