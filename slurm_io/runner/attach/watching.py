"""The sampler of an attach: started, waited for, stopped.

It is our child and ends with us (SamplerSpec.attached_by), whatever kills us; its longest lifetime
is a second net below that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slurm_io.host.malloc_settings import with_lean_malloc
from slurm_io.runner.child import stop

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
GRACE_S = 60.0  # by how much the sampler's own limit lies behind the duration
_POLL_S = 0.2

Why = Literal["over", "interrupted", "ended", "failed"]


@dataclass(frozen=True)
class Watched:
    """How it ended: the time was over, somebody told us to stop, the job's processes ended, or the
    sampler failed. `lasted_s` counts from its start."""

    why: Why
    lasted_s: float


def hold_signals() -> None:
    """From now on a signal that means the end waits until somebody looks: :func:`watch` does."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def release_signals() -> None:
    """Undo :func:`hold_signals`; one that came meanwhile takes effect now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def start_sampler(spool: Path) -> subprocess.Popen[bytes]:
    """Start the sampler that ``sampler.json`` of `spool` describes; its complaints go to a log."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    with open(os.open(spool / "sampler.log", flags, 0o600), "wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "slurm_io.sampler", str(spool)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=with_lean_malloc(os.environ),
        )


def watch(
    sampler: subprocess.Popen[bytes], duration_s: float, each_turn: Callable[[], None] | None = None
) -> Watched:
    """Until the time is over, a signal comes or the sampler ends; then the sampler is stopped.

    `each_turn` is called some times a second. Signals must be held.
    """
    began_s = time.monotonic()
    try:
        why = _wait(sampler, began_s + duration_s, each_turn)
    finally:
        stop(sampler)
    return Watched(why, time.monotonic() - began_s)


def _wait(
    sampler: subprocess.Popen[bytes], until_s: float, each_turn: Callable[[], None] | None
) -> Why:
    while True:
        if sampler.poll() is not None:
            return "ended" if sampler.returncode == 0 else "failed"
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            return "over"
        if signal.sigtimedwait(STOP_SIGNALS, min(_POLL_S, left_s)) is not None:
            return "interrupted"
        if each_turn is not None:
            each_turn()
