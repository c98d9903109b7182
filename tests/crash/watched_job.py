"""A plain Python job with the real hook attached: no torch, one watched loader, a steady beat."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import slurm_io
from tests.hook.ring_reader import Batch, read_rings

ATTACH = Path(slurm_io.__file__).parent / "hook" / "attach"
STEADY = """
import sys, time
import slurm_io_hook

def beats(seconds):
    number = 0
    while True:
        time.sleep(seconds)
        yield number
        number += 1

for _batch in slurm_io_hook.watch(beats(float(sys.argv[1]))):
    time.sleep(float(sys.argv[1]))
"""


@contextlib.contextmanager
def watched_job(
    rings: Path, script: str = STEADY, arguments: tuple[str, ...] = ("0.005",)
) -> Iterator[subprocess.Popen[bytes]]:
    """The job, once its ring is there; killed at the end."""
    rings.mkdir(mode=0o700, exist_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ATTACH),
        "SLURM_IO_RING_DIR": str(rings),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], env=environment, start_new_session=True
    )
    try:
        wait_until(lambda: any(rings.iterdir()) or process.poll() is not None)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def batches_in_ring(rings: Path) -> list[Batch]:
    """What the hook has written, read by the tests' own reader while nobody writes."""
    (ring,) = read_rings(rings)
    assert ring.written <= ring.n_records, "the ring still holds everything"
    return ring.batches


def stop(job: subprocess.Popen[bytes]) -> None:
    """SIGSTOP, and wait until it has taken effect."""
    job.send_signal(signal.SIGSTOP)
    os.waitpid(job.pid, os.WUNTRACED)


def wait_until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    """Until `holds()` is true."""
    deadline_s = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline_s, f"not within {seconds} s"
        time.sleep(0.02)
