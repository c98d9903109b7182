"""CPU of each collector per tick beside iostat, pidstat and node_exporter in the same run.

All run at the same time on the same machine for the same number of seconds, once a second each:
every collector in a fresh child process of its own (the CPU of its collect calls, its first tick
left out), iostat and pidstat with a 1 s interval, node_exporter scraped once a second. Of a peer
the CPU of the whole process is counted between two moments after its start, so its start is free.
CPU time, not wall time: other load on the machine moves the numbers little.

    python bench/collectors_vs_iostat.py [--seconds 20] [--rounds 3] [--json]

Prints a table: microseconds of CPU per tick, and how many times cheaper than each peer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_io.collectors.base import Context, Member, Tick
from slurm_io.host.pidstat import parse_stat

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
COLLECTORS = ("block", "node", "cgroup", "capacity", "process")
SETTLE_S = 1.5


@dataclass(frozen=True)
class Peer:
    """A peer: its command and what it is compared with."""

    name: str
    argv: tuple[str, ...]
    scrape_port: int | None = None


def peers(seconds: int) -> Iterator[Peer]:
    """The peers that are installed here."""
    count = str(seconds + 10)
    if iostat := shutil.which("iostat"):
        yield Peer("iostat -dxk 1", (iostat, "-dxk", "1", count))
    if pidstat := shutil.which("pidstat"):
        yield Peer("pidstat -dur 1", (pidstat, "-dur", "1", count))
    if exporter := shutil.which("prometheus-node-exporter") or shutil.which("node_exporter"):
        port = free_port()
        yield Peer(
            "node_exporter, scraped each 1 s",
            (exporter, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"),
            port,
        )


def free_port() -> int:
    """A TCP port nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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


def cpu_s(pid: int) -> float:
    """CPU seconds of a process by the scheduler's own count (nanoseconds), all threads."""
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total_ns += int((task / "schedstat").read_text().split()[0])
    return total_ns / 1e9


def scrape(port: int) -> None:
    """Fetch all metrics once."""
    with contextlib.suppress(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read()


def measure_all(seconds: int) -> dict[str, float]:
    """One round: CPU microseconds per tick by name."""
    running = [
        (peer, subprocess.Popen(peer.argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        for peer in peers(seconds)
    ]
    spawn = multiprocessing.get_context("spawn")
    channels = {}
    for name in COLLECTORS:
        receiver, sender = spawn.Pipe(duplex=False)
        child = spawn.Process(target=measure_collector, args=(name, seconds, sender.send))
        child.start()
        channels[name] = (child, receiver)
    try:
        time.sleep(SETTLE_S)
        before = {peer.name: cpu_s(process.pid) for peer, process in running}
        for _ in range(seconds):
            until_s = time.monotonic() + 1
            for peer, _ in running:
                if peer.scrape_port is not None:
                    scrape(peer.scrape_port)
            time.sleep(max(0.0, until_s - time.monotonic()))
        after = {peer.name: cpu_s(process.pid) for peer, process in running}
        found = {name: receiver.recv() for name, (_, receiver) in channels.items()}
        found |= {name: after[name] - before[name] for name in before}
    finally:
        for _, process in running:
            process.kill()
            process.wait()
        for child, _ in channels.values():
            child.join(5)
    return {name: spent_s / seconds * 1e6 for name, spent_s in found.items()}


def main() -> int:
    """Run the rounds and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rounds = [measure_all(arguments.seconds) for _ in range(arguments.rounds)]
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
        ("iostat -dxk 1", ("block",)),
        ("pidstat -dur 1", ("process",)),
        ("node_exporter, scraped each 1 s", ("block", "node", "capacity")),
    ):
        if peer in medians and all(name in ours for name in compared):
            total = sum(medians[name] for name in compared)
            print(f"{peer} / {' + '.join(compared)}: {medians[peer] / total:.1f} times our CPU")


if __name__ == "__main__":
    sys.exit(main())
