"""Starts real processes in a known state and looks at them with the waits collector."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from slurm_io.collectors.base import Context, Member, Tick
from slurm_io.collectors.waits import WaitsCollector
from slurm_io.host.pidstat import parse_stat
from slurm_io.store.schema import TABLES, WAIT_CLASSES

_HEAD = """
import mmap, os, select, socket, subprocess, sys, threading, time
def ready():
    print("ready", flush=True)
def thread(do):
    threading.Thread(target=do, daemon=True).start()
def for_ever(do):
    while True:
        do()
"""


@contextlib.contextmanager
def running(script: str, *arguments: object) -> Iterator[int]:
    """A process that runs `script` up to its ``ready()`` and then whatever follows; its pid."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HEAD + script, *map(str, arguments)], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def member(pid: int, role: str = "worker", **fields: Any) -> Member:
    """A member for a living process, worker of rank 3 by default."""
    stat = parse_stat(Path(f"/proc/{pid}/stat").read_bytes())
    assert stat is not None
    return Member(pid, stat.starttime, stat.ppid, stat.comm, 3, role, **{"rank_pid": 1, **fields})  # type: ignore[arg-type]


def context(
    members: Sequence[Member],
    phase_of: Callable[[int], tuple[str, int | None]] = lambda pid: ("data_wait", 0),
) -> Context:
    """A context over the real /proc."""
    return Context(
        proc_root=Path("/proc"),
        sys_root=Path("/sys"),
        members=lambda: members,
        cgroup_paths=lambda: (),
        capacity_mounts=lambda: (),
        phase_of=phase_of,
    )


def watch(
    members: Sequence[Member], passes: int = 25, phase: str = "data_wait", pause_s: float = 0.017
) -> list[dict[str, Any]]:
    """Rows of some passes by column name. The pause is no multiple of anything the tests do."""
    collector = WaitsCollector()
    assert collector.open(context(members, lambda pid: (phase, None))).state == "on"
    for _ in range(passes):
        collector.sample(time.monotonic_ns())
        time.sleep(pause_s)
    rows = collector.collect(Tick(2, 1, 1_000_000_000))
    collector.close()
    columns = TABLES["waits"].column_names()
    return [dict(zip(columns, row, strict=True)) for row in rows]


def shares(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Share of each class in the samples of all rows."""
    counts = {name: sum(row[f"n_{name}"] for row in rows) for name in WAIT_CLASSES}
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items() if count}
