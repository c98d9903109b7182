"""The peers that watch beside us, and what a running process costs, read from /proc."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

IOSTAT, PIDSTAT, EXPORTER = "iostat -dxk 1", "pidstat -dur 1", "node_exporter, scraped each 1 s"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Peer:
    """A peer: its name, its command, and where to scrape it."""

    name: str
    argv: tuple[str, ...]
    scrape_port: int | None = None


def installed_peers(seconds: int) -> tuple[Peer, ...]:
    """The peers that are here, for a run of about `seconds`; a line is printed for each other."""
    port = free_port()
    count = str(seconds + 30)
    wanted = (
        (IOSTAT, ("iostat",), ("-dxk", "1", count), None),
        (PIDSTAT, ("pidstat",), ("-dur", "1", count), None),
        (
            EXPORTER,
            ("prometheus-node-exporter", "node_exporter"),
            (f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"),
            port,
        ),
    )
    found = []
    for name, programs, arguments, scrape_port in wanted:
        paths = [path for path in map(shutil.which, programs) if path]
        if paths:
            found.append(Peer(name, (paths[0], *arguments), scrape_port))
        else:
            print(f"{programs[0]} is not installed: not compared")
    return tuple(found)


def free_port() -> int:
    """A TCP port nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(peers: tuple[Peer, ...]) -> Iterator[dict[str, int]]:
    """All peers at once; gives their pids by name."""
    started = {
        peer.name: subprocess.Popen(
            peer.argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for peer in peers
    }  # fmt: skip
    try:
        yield {name: process.pid for name, process in started.items()}
    finally:
        for process in started.values():
            process.kill()
            process.wait()


def scrape_each_second(peers: tuple[Peer, ...], seconds: int) -> None:
    """Let `seconds` pass; fetch all metrics of those that are scraped once in each."""
    until_s = time.monotonic()
    for _ in range(seconds):
        until_s += 1
        for peer in peers:
            if peer.scrape_port is not None:
                with contextlib.suppress(OSError):
                    url = f"http://127.0.0.1:{peer.scrape_port}/metrics"
                    urllib.request.urlopen(url, timeout=5).read()
        time.sleep(max(0.0, until_s - time.monotonic()))


def cpu_s(pid: int) -> float:
    """CPU seconds of a process: its threads to the nanosecond, children it waited for to a tick."""
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total_ns += int((task / "schedstat").read_text().split()[0])
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return total_ns / 1e9 + (int(fields[13]) + int(fields[14])) / _TICKS_PER_S


def rss_peak_bytes(pid: int) -> int:
    """VmHWM."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def written_bytes(pid: int) -> int:
    """Bytes passed to write calls so far, to files, pipes and sockets alike."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))
