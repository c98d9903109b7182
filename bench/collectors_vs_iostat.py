"""CPU of each collector per tick beside iostat, pidstat and node_exporter in the same run.

All run at the same time on the same machine for the same number of seconds, once a second each:
every collector in a fresh child process of its own (the CPU of its collect calls, its first tick
left out), iostat and pidstat with a 1 s interval, node_exporter scraped once a second. Of a peer
the CPU of the whole process is counted between two moments after its start, so its start is free.
CPU time, not wall time: other load on the machine moves the numbers little.

    python bench/collectors_vs_iostat.py [--seconds 12] [--rounds 2] [--json]

Prints a table: microseconds of CPU per tick, and how many times cheaper than each peer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab.peers import (
    EXPORTER,
    IOSTAT,
    PIDSTAT,
    Peer,
    cpu_s,
    installed_peers,
    running,
    scrape_each_second,
)

from slurm_io.collectors.base import Context, Member, Tick
from slurm_io.host.pidstat import parse_stat

COLLECTORS = ("block", "node", "cgroup", "capacity", "process")
SETTLE_S = 1.5


def members() -> tuple[Member, ...]:
    """All processes of this machine as if they were the job's, as pidstat sees them."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                stat = parse_stat((folder / "stat").read_bytes())
                if stat is not None:
                    pid = int(folder.name)
                    found.append(Member(pid, stat.starttime, stat.ppid, stat.comm, None, "other"))
    return tuple(found)


def own_cgroups() -> tuple[str, ...]:
    """The control groups of this process, for want of a job's."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    return tuple(dict.fromkeys(line.split(":", 2)[2] for line in lines))[:1] or ("/",)


def measure_collector(name: str, seconds: int, result: Callable[[float], None]) -> None:
    """Child: CPU seconds of `seconds` ticks of one collector."""
    from slurm_io.collectors.base import COLLECTORS as REGISTRY

    watched = members()
    groups = own_cgroups()
    collector = REGISTRY.get(name)()
    collector.open(
        Context(
            Path("/proc"), Path("/sys"), lambda: watched, lambda: groups, lambda: ("/",),
            lambda pid: ("none", None),
        )
    )  # fmt: skip
    spent_ns = 0
    next_s = time.monotonic() + SETTLE_S
    for number in range(seconds + 1):
        time.sleep(max(0.0, next_s - time.monotonic()))
        next_s += 1
        began_ns = time.process_time_ns()
        collector.collect(Tick(time.time_ns(), time.monotonic_ns(), None))
        spent_ns += time.process_time_ns() - began_ns if number else 0
    collector.close()
    children = os.times()
    result(spent_ns / 1e9 + children.children_user + children.children_system)


def measure_all(seconds: int, peers: tuple[Peer, ...]) -> dict[str, float]:
    """One round: CPU microseconds per tick by name."""
    spawn = multiprocessing.get_context("spawn")
    channels = {}
    for name in COLLECTORS:
        receiver, sender = spawn.Pipe(duplex=False)
        child = spawn.Process(target=measure_collector, args=(name, seconds, sender.send))
        child.start()
        channels[name] = (child, receiver)
    with running(peers) as pids:
        try:
            time.sleep(SETTLE_S)
            before = {name: cpu_s(pid) for name, pid in pids.items()}
            scrape_each_second(peers, seconds)
            found = {name: cpu_s(pid) - before[name] for name, pid in pids.items()}
            found |= {name: receiver.recv() for name, (_, receiver) in channels.items()}
        finally:
            for child, _ in channels.values():
                child.join(5)
    return {name: spent_s / seconds * 1e6 for name, spent_s in found.items()}


def main() -> int:
    """Run the rounds and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    peers = installed_peers(arguments.seconds)
    rounds = [measure_all(arguments.seconds, peers) for _ in range(arguments.rounds)]
    medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    if arguments.json:
        print(json.dumps({"cpu_us_per_tick": medians, "rounds": rounds}))
        return 0
    print_table(medians, rounds)
    return 0


def print_table(medians: dict[str, float], rounds: list[dict[str, float]]) -> None:
    """Median and range of each, then the ratios that belong together."""
    print(f"{'CPU per tick':34} {'median':>10} {'lowest':>10} {'highest':>10}   µs")
    for name, median in medians.items():
        values = [one[name] for one in rounds]
        print(f"{name:34} {median:10.0f} {min(values):10.0f} {max(values):10.0f}")
    ours = [name for name in COLLECTORS if name in medians]
    for peer, compared in (
        (IOSTAT, ("block",)),
        (PIDSTAT, ("process",)),
        (EXPORTER, ("block", "node", "capacity")),
    ):
        if peer in medians and all(name in ours for name in compared):
            total = sum(medians[name] for name in compared)
            print(f"{peer} / {' + '.join(compared)}: {medians[peer] / total:.1f} times our CPU")


if __name__ == "__main__":
    sys.exit(main())
