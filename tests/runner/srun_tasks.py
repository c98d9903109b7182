"""Tasks of an srun step without Slurm: plain processes with the variables that slurmstepd sets."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RANK = """
import sys, time
from slurm_io_hook import watch

def batches(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)
        yield b"batch"

for _ in watch(batches(float(sys.argv[1]))):
    time.sleep(0.01)
sys.exit(int(sys.argv[2]))
"""
_NUMBERS = iter(range(10**9))


@dataclass(frozen=True)
class FakeStep:
    """One step in the work folder `folder`; its job number is used by nobody else here."""

    folder: Path
    job: str
    tasks: int = 2
    nodes: tuple[str, ...] = ("n1",)
    number: int = 0

    def start(
        self, task: int, *argv: str, node: str = "n1", options: tuple[str, ...] = (), **set_: str
    ) -> subprocess.Popen[bytes]:
        """One task: ``slurm-io run OPTIONS -- ARGV``."""
        (self.folder / "tmp").mkdir(exist_ok=True)
        names = {
            "SLURM_JOB_ID": self.job,
            "SLURM_STEP_ID": str(self.number),
            "SLURM_STEP_NUM_TASKS": str(self.tasks),
            "SLURM_NTASKS": str(self.tasks),
            "SLURM_STEP_NODELIST": ",".join(self.nodes),
            "SLURM_STEP_TASKS_PER_NODE": f"{self.tasks // len(self.nodes)}(x{len(self.nodes)})",
            "SLURM_NODEID": str(self.nodes.index(node)),
            "SLURMD_NODENAME": node,
            "SLURM_PROCID": str(task),
            "TMPDIR": str(self.folder / "tmp"),  # a killed leader leaves its spool
            **set_,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "slurm_io", "run", *options, "--", *argv],
            env={**os.environ, **names},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def start_rank(
        self, task: int, seconds: float, code: int = 0, node: str = "n1", **set_: str
    ) -> subprocess.Popen[bytes]:
        """One task that trains for a while and ends with `code`."""
        return self.start(
            task, sys.executable, "-c", RANK, str(seconds), str(code), node=node, **set_
        )

    @property
    def store(self) -> Path:
        """Where the recording goes by default."""
        return self.folder / f"slurm-io-{self.job}.step{self.number}"

    def stores(self) -> list[str]:
        """Names of all stores in the work folder."""
        return sorted(path.name for path in self.folder.glob("slurm-io-*"))

    def told(self, name: str) -> dict[str, Any]:
        """A JSON file of the store."""
        found: dict[str, Any] = json.loads((self.store / name).read_text())
        return found

    def meetings(self) -> list[Path]:
        """Meeting folders of this step that are there now."""
        return sorted(Path("/dev/shm").glob(f"*step-{self.job}.0.{self.number}-*"))

    def forget(self) -> None:
        """Remove what killed leaders left in memory."""
        for folder in self.meetings():
            shutil.rmtree(folder)


def fresh_job() -> str:
    """A job number that no other test on this machine has at this moment."""
    return str(os.getpid() * 1000 + next(_NUMBERS))


@contextlib.contextmanager
def all_ended(*tasks: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill at the end what still runs."""
    try:
        yield
    finally:
        for task in tasks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(task.pid, signal.SIGKILL)
            task.communicate()


def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    """Until `holds()`."""
    deadline_s = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline_s, f"not within {seconds} s"
        time.sleep(0.02)
