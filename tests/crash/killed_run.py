"""``slurm-io run`` with a watched job in it, and its processes by role."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_io.host.same_process import is_alive
from tests.crash.watched_job import STEADY, wait_until

SLURM_IO = [sys.executable, "-m", "slurm_io"]


@dataclass(frozen=True)
class Run:
    """One run under way. `command_pid` is the watched job."""

    wrapper: subprocess.Popen[bytes]
    store: Path
    spool: Path
    ring_dir: Path
    sampler_pid: int
    sampler_starttime: int
    command_pid: int

    def sampler_lives(self) -> bool:
        return is_alive(self.sampler_pid, self.sampler_starttime)

    def kill_wrapper(self) -> None:
        self.wrapper.kill()
        self.wrapper.wait()

    def end_command(self) -> None:
        """The command ends, and with it its sampler."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.command_pid, signal.SIGTERM)
        wait_until(lambda: not self.sampler_lives())


@contextlib.contextmanager
def profiled_run(
    folder: Path, script: str = STEADY, options: tuple[str, ...] = ("--no-report",)
) -> Iterator[Run]:
    """A run whose sampler is at work and whose command has a ring; nothing lives on after it."""
    store, spools = folder / "store", folder / "spools"
    spools.mkdir()
    rings: Path | None = None
    own = ["run", *options, "--spool", str(spools), "-o", str(store), "--"]
    wrapper = subprocess.Popen(
        [*SLURM_IO, *own, sys.executable, "-c", script, "0.01"], start_new_session=True
    )
    try:
        wait_until(lambda: any(spools.glob("*/meta.json")))
        run = _look(wrapper, store, next(spools.iterdir()))
        rings = run.ring_dir
        yield run
    finally:
        for pid in _session_of(wrapper.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wrapper.kill()
        wrapper.wait()
        if rings is not None:
            shutil.rmtree(rings, ignore_errors=True)


def report(store: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """``slurm-io report``."""
    command = [*SLURM_IO, "report", str(store), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def _look(wrapper: subprocess.Popen[bytes], store: Path, spool: Path) -> Run:
    spec = json.loads((spool / "sampler.json").read_text())
    claim = json.loads((spool / "sampler.pid").read_text())
    ring_dir = Path(spec["ring_dir"])
    wait_until(lambda: any(ring_dir.iterdir()))
    command_pid = int(next(ring_dir.iterdir()).name.split("-")[1])
    return Run(
        wrapper, store, spool, ring_dir, claim["pid"], claim["starttime"], command_pid
    )  # fmt: skip


def _session_of(wrapper_pid: int) -> list[int]:
    """Processes of the wrapper's session: it was made for them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if os.getsid(int(entry.name)) == wrapper_pid:
                    found.append(int(entry.name))
    return found


def let_it_record(seconds: float = 3.2) -> None:
    """Long enough for two flushes."""
    time.sleep(seconds)
