"""A job stood in for by crew.py, a sampler beside it, and what a watcher used in some seconds."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.peers import cpu_s, rss_peak_bytes, written_bytes

from slurm_io.host.malloc_settings import with_lean_malloc
from slurm_io.model import JobIdentity, SamplerSpec

CREW = Path(__file__).parent / "crew.py"


@dataclass(frozen=True)
class Cost:
    """What a watcher used for one sample a second."""

    cpu_ms: float
    rss_peak_mib: float
    written_bytes: float


@contextlib.contextmanager
def crew(rings: Path, ranks: int, workers: int, threads: int, times: int) -> Iterator[int]:
    """`times` as many ranks and workers; the readers among them read that much more seldom, so
    that the machine stays as busy as it was. Gives the pid above all of them."""
    sizes = map(str, (ranks * times, workers * times, threads, times))
    process = subprocess.Popen(
        [sys.executable, str(CREW), str(rings), *sizes],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
    )
    try:
        time.sleep(2 + times)
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def sampler(
    spool: Path, rings: Path, root_pid: int, hz: float, budget: float, proc_root: str = "/proc"
) -> Iterator[int]:
    """A sampler of that job; told to stop at the end, so that its self.json is complete."""
    spec = SamplerSpec(
        job=JobIdentity("bench", "1", 0, "bench", os.getuid()), node="here", mode="user",
        spool=str(spool), ring_dir=str(rings), root_pid=root_pid, waits_hz=hz,
        budget_share=budget, proc_root=proc_root,
    )  # fmt: skip
    (spool / "sampler.json").write_text(json.dumps(spec.to_dict()))
    process = subprocess.Popen(
        [sys.executable, "-m", "slurm_io.sampler", str(spool)], env=with_lean_malloc(os.environ)
    )
    try:
        yield process.pid
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    finally:
        process.kill()
        process.wait()


def costs_of(pids: Mapping[str, int], let_pass: Callable[[], None]) -> dict[str, Cost]:
    """What each process used, children it waited for included, while `let_pass` ran."""
    before = {name: (cpu_s(pid), written_bytes(pid)) for name, pid in pids.items()}
    began_s = time.monotonic()
    let_pass()
    seconds = time.monotonic() - began_s
    return {name: _cost(*before[name], pid, seconds) for name, pid in pids.items()}


def _cost(before_s: float, before_bytes: int, pid: int, seconds: float) -> Cost:
    used_s, written = cpu_s(pid) - before_s, written_bytes(pid) - before_bytes
    return Cost(1000 * used_s / seconds, rss_peak_bytes(pid) / 2**20, written / seconds)


def processes_below(root_pid: int) -> list[int]:
    """Pids of the job without the one above all."""
    found, parents = [], [root_pid]
    while parents:
        children = _children(parents.pop())
        found += children
        parents += children
    return found


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()]
