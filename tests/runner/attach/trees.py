"""Real process trees to attach to, and the command that does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_io.host.same_process import starttime_of

SLURM_IO = [sys.executable, "-m", "slurm_io"]
TRAIN = """
import multiprocessing, os, sys, time

def work(queue):
    while True:
        time.sleep(0.02)
        queue.put(1)

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    queue = context.Queue(4)
    for _ in range(2):
        context.Process(target=work, args=(queue,), daemon=True).start()
    os.write(1, b"trains\\n")  # print() writes twice when unbuffered: two ranks, one pipe
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        queue.get()
        time.sleep(0.02)
"""


@dataclass(frozen=True)
class Tree:
    """A shell with two ranks of two workers each. `tmp` is where an attach to it puts its spool."""

    root: subprocess.Popen[bytes]
    folder: Path

    @property
    def pid(self) -> int:
        return self.root.pid

    @property
    def tmp(self) -> Path:
        return self.folder / "tmp"

    def attach(self, *options: str, pid: int | None = None) -> subprocess.Popen[str]:
        """``slurm-io attach --pid`` of the shell."""
        return start_attach(self.folder, "--pid", str(pid or self.pid), *options)


def start_attach(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command, in `folder`, its output in pipes, its spool below `folder`."""
    (folder / "tmp").mkdir(exist_ok=True)
    return subprocess.Popen(
        [*SLURM_IO, "attach", *arguments],
        cwd=folder,
        env={**clean_environment(), "TMPDIR": str(folder / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def attach(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same, run to its end."""
    process = start_attach(folder, *arguments)
    try:
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
        process.wait()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@contextlib.contextmanager
def training(folder: Path, seconds: float = 60.0, ranks: int = 2) -> Iterator[Tree]:
    """The tree, all of it at work; nothing of it lives on."""
    file = folder / "train.py"
    file.write_text(TRAIN)
    one = 'RANK=%d LOCAL_RANK=%d WORLD_SIZE=%d "$PY" "$FILE" "$SECONDS_" &'
    script = " ".join(one % (rank, rank, ranks) for rank in range(ranks)) + " wait; sleep 0.1"
    own = {"PY": sys.executable, "FILE": str(file), "SECONDS_": str(seconds)}
    root = subprocess.Popen(
        ["sh", "-c", script],
        cwd=folder,
        env={**clean_environment(), **own},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert root.stdout is not None
        for _ in range(ranks):
            said = root.stdout.readline()
            assert said == b"trains\n", f"said {said!r}, the shell ended with {root.poll()}"
        yield Tree(root, folder)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(root.pid, signal.SIGKILL)
        root.wait()
        assert root.stdout is not None
        root.stdout.close()


def clean_environment() -> dict[str, str]:
    """Ours, without what would make a process a rank or a job's."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "TMPDIR")
    return {
        name: value
        for name, value in os.environ.items()
        if name not in names and not name.startswith("SLURM")
    }


def wait_until(holds: object, seconds: float = 30.0) -> None:
    """Until a call gives something true."""
    assert callable(holds)
    deadline_s = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def processes() -> set[tuple[int, int]]:
    """(pid, starttime) of everything that runs on this machine."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    found = ((pid, starttime_of(pid)) for pid in pids)
    return {(pid, starttime) for pid, starttime in found if starttime is not None}


def of_attaches(folder: Path) -> set[int]:
    """Pids of all that an attach in `folder` has started and that still runs: they inherit its
    TMPDIR."""
    mark = f"TMPDIR={folder / 'tmp'}".encode()
    found = set()
    for pid, _ in processes():
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.add(pid)
    return found
