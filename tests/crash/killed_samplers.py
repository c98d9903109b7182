"""Samplers on one job, each in a spool of its own, each killed -9 at a moment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from slurm_io.model import SamplerSpec
from tests.sampler.running_sampler import make_spool


@dataclass(frozen=True)
class Killed:
    """One dead sampler. `ready_ns` is when it had begun to sample, None if it never did."""

    spool: Path
    ready_ns: int | None
    killed_ns: int


@dataclass
class _Running:
    spool: Path
    process: subprocess.Popen[bytes]
    lives_s: float
    counts_from_start: bool
    started_ns: int
    ready_ns: int | None = None

    def look(self) -> None:
        if self.ready_ns is None and (self.spool / "meta.json").exists():
            self.ready_ns = time.monotonic_ns()

    def is_due(self) -> bool:
        since_ns = self.started_ns if self.counts_from_start else self.ready_ns
        return since_ns is not None and time.monotonic_ns() - since_ns >= self.lives_s * 1e9


def kill_samplers(
    folder: Path, root_pid: int, lives_s: list[float], from_start: list[bool]
) -> list[Killed]:
    """Start one sampler for each of `lives_s`, all at once; kill each after its time.

    The time counts from when it had begun to sample, or with `from_start` from its very start, so
    that some die among their imports.
    """
    running = [
        _start(folder / f"{number:03d}", root_pid, life_s, early)
        for number, (life_s, early) in enumerate(zip(lives_s, from_start, strict=True))
    ]
    killed: list[Killed] = []
    deadline_s = time.monotonic() + 60
    while running:
        assert time.monotonic() < deadline_s, "a sampler never began"
        time.sleep(0.01)
        for one in list(running):
            one.look()
            if one.is_due():
                killed.append(_kill(one))
                running.remove(one)
    return killed


def _start(folder: Path, root_pid: int, life_s: float, early: bool) -> _Running:
    folder.mkdir()
    spool = make_spool(folder, root_pid, flush_s=SamplerSpec.flush_s)
    _share_rings(spool, folder.parent / "rings")
    process = subprocess.Popen([sys.executable, "-m", "slurm_io.sampler", str(spool)])
    return _Running(spool, process, life_s, early, time.monotonic_ns())


def _share_rings(spool: Path, rings: Path) -> None:
    spec = json.loads((spool / "sampler.json").read_text())
    (spool / "sampler.json").write_text(json.dumps({**spec, "ring_dir": str(rings)}))


def _kill(one: _Running) -> Killed:
    assert one.process.poll() is None, "it ended before it was killed"
    one.process.kill()
    killed_ns = time.monotonic_ns()
    one.process.wait()
    return Killed(one.spool, one.ready_ns, killed_ns)
