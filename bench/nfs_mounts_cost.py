"""What many busy NFS mounts cost, and what the governor makes of it.

    python bench/nfs_mounts_cost.py [--mounts 1,10,100] [--seconds 60]

Made-up mountstats: a recorded mount (tests/fixtures/nfs) under so many names and servers, whose
operations all count up each second. First the collector by itself, CPU a tick, idle and busy. Then
a whole sampler beside the most mounts: CPU in its first seconds and later, and what the governor
slowed. The kernel's time to write mountstats is not in it: the file is an ordinary one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from lab.job import costs_of, sampler

from slurm_io.collectors.base import Context, Tick
from slurm_io.collectors.nfs import Nfs
from tests.labs.simulated_day import ROOT, Tree

RECORDED = Path(__file__).parents[1] / "tests/fixtures/nfs/mountstats42.txt"
NS = 1_000_000_000
SETTLE_S, BETWEEN_S = 8, 60


def main() -> None:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mounts", default="1,10,100")
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    counts = [int(word) for word in options.mounts.split(",")]
    for n_mounts in counts:
        with tempfile.TemporaryDirectory() as folder:
            idle_ms, busy_ms, rows = of_collector(Path(folder), n_mounts)
        figures = f"idle {idle_ms:6.2f}, busy {busy_ms:6.2f} ms CPU a tick, {rows} rows"
        print(f"{n_mounts:4} mounts: {figures}")
    with tempfile.TemporaryDirectory() as folder:
        of_sampler(Path(folder), max(counts), options.seconds)


class Mounts:
    """`n` NFS mounts in a made-up /proc: mountinfo, and mountstats after so many seconds."""

    def __init__(self, proc: Path, n: int) -> None:
        self._path = proc / "self/mountstats"
        self._n = n
        block = RECORDED.read_text().partition("device nfs-d.example.org")[2]
        self._lines = block.partition("\ndevice ")[0].splitlines()[1:]
        infos = [
            f"{100 + i} 1 0:{100 + i} / /data{i} rw - nfs4 server{i}:/x rw,vers=4.2\n"
            for i in range(n)
        ]
        mountinfo = proc / "self/mountinfo"
        known = mountinfo.read_text() if mountinfo.exists() else ""
        mountinfo.write_text(known + "".join(infos))

    def write(self, second: int) -> None:
        """In place and at once, since its reader keeps it open."""
        body = "\n".join(moved(line, second) for line in self._lines)
        text = "".join(
            f"device server{i}:/x mounted on /data{i} with fstype nfs4 statvers=1.1\n{body}\n"
            for i in range(self._n)
        )
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(fd, text.encode(), 0)
        os.ftruncate(fd, len(text))
        os.close(fd)


def moved(line: str, second: int) -> str:
    """Every operation in use, and the transport, counts up."""
    name, colon, rest = line.partition(":")
    words = rest.split()
    if not colon or name.strip() not in ("READ", "WRITE", "GETATTR", "LOOKUP", "ACCESS", "OPEN"):
        return line
    return f"{name}: " + " ".join(str(int(word) % 10**15 + 7 * second) for word in words)


def of_collector(folder: Path, n_mounts: int) -> tuple[float, float, int]:
    """CPU ms a tick with counters at rest and in motion; rows of a busy tick."""
    proc = folder / "proc"
    (proc / "self").mkdir(parents=True)
    mounts = Mounts(proc, n_mounts)
    mounts.write(0)
    collector = Nfs()
    collector.open(
        Context(proc, folder, lambda: (), lambda: (), lambda: (), lambda pid: ("none", None))
    )
    spent = {True: 0.0, False: 0.0}
    rows = 0
    ticks = 10
    for turn in range(2 * ticks + 1):
        is_busy = turn > ticks
        mounts.write(turn if is_busy else 0)
        began_s = time.process_time()
        found = collector.collect(Tick(turn * NS, (turn + 1) * NS, NS))
        spent[is_busy] += (time.process_time() - began_s) if turn else 0.0
        rows = len(found)
    collector.close()
    return 1000 * spent[False] / ticks, 1000 * spent[True] / ticks, rows


def keep_moving(proc: Path, n_mounts: int) -> None:
    """For ever, in a process of its own."""
    mounts, second = Mounts(proc, n_mounts), 0
    while True:
        second += 1
        mounts.write(second)
        time.sleep(1)


def of_sampler(folder: Path, n_mounts: int, seconds: int) -> None:
    """A sampler of a small made-up job on a node with these mounts."""
    spool, rings, proc = folder / "spool", folder / "rings", folder / "proc"
    for path in (spool, rings):
        path.mkdir()
    Tree(proc)
    mover = multiprocessing.Process(target=keep_moving, args=(proc, n_mounts), daemon=True)
    mover.start()
    time.sleep(1)
    try:
        with sampler(spool, rings, ROOT, 20.0, 0.003, proc_root=str(proc)) as pid:
            time.sleep(SETTLE_S)
            first = costs_of({"": pid}, lambda: time.sleep(seconds))[""]
            time.sleep(BETWEEN_S)
            later = costs_of({"": pid}, lambda: time.sleep(seconds))[""]
    finally:
        mover.kill()
    own = json.loads((spool / "self.json").read_text())
    print(
        f"a sampler beside {n_mounts} busy mounts: "
        f"{first.cpu_ms:.2f} ms/s in the first {seconds} s, {later.cpu_ms:.2f} ms/s later, "
        f"{later.rss_peak_mib:.1f} MiB"
    )
    use = own["collectors"]["nfs"]
    print(f"nfs: {1e3 * use['cpu_s'] / max(1, use['runs']):.2f} ms each of {use['runs']} times")
    print(f"governor: {own['governor']['paces']}")


if __name__ == "__main__":
    main()
