"""Stop the sampler of one job on one node, and nobody else.

The pid comes from files in the root-only spool folder, with its start time: ``sampler.pid`` (the
sampler's own) or ``started.json`` (the prolog's, for a sampler that ended before it could write).
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from dataclasses import dataclass

from slurm_io.host.root_folders import read_file
from slurm_io.host.same_process import is_alive, send_signal

STARTING_S = 3.0  # a sampler younger than this may not have installed its signal handler
POLL_S = 0.05
ENDED = "sampler ended"


@dataclass(frozen=True)
class Known:
    """A process by its identity."""

    pid: int
    starttime: int


def known_sampler(folder: int, name: str) -> Known | None:
    """The process that a file of the spool folder names; None when there is no such file."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        content = json.loads(read_file(folder, name) or b"null")
        return Known(int(content["pid"]), int(content["starttime"]))
    return None


def is_at_work(folder: int) -> bool:
    """Whether the sampler that sampler.pid names still runs."""
    sampler = known_sampler(folder, "sampler.pid")
    return sampler is not None and is_alive(sampler.pid, sampler.starttime)


def ask(folder: int) -> bool:
    """SIGTERM the sampler if it is ready for one; False when there is nobody to ask (yet)."""
    sampler = known_sampler(folder, "sampler.pid")
    return sampler is not None and send_signal(sampler.pid, sampler.starttime, signal.SIGTERM)


def stop(folder: int, limit_s: float) -> str:
    """See the sampler end: asked, then after `limit_s` killed. How it went, for the log."""
    sampler = _when_ready(folder)
    if sampler is None:
        return "no sampler ran"
    send_signal(sampler.pid, sampler.starttime, signal.SIGTERM)
    if _is_gone(sampler, limit_s):
        return ENDED
    send_signal(sampler.pid, sampler.starttime, signal.SIGKILL)
    return "sampler killed" if _is_gone(sampler, 2.0) else "sampler cannot be killed"


def _when_ready(folder: int) -> Known | None:
    """The sampler once it handles signals, or whatever the prolog started, after a while."""
    deadline = time.monotonic() + STARTING_S
    while (sampler := known_sampler(folder, "sampler.pid")) is None:
        started = known_sampler(folder, "started.json")
        gone = started is not None and not is_alive(started.pid, started.starttime)
        if gone or time.monotonic() > deadline:
            return started
        time.sleep(POLL_S)
    return sampler


def _is_gone(sampler: Known, limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while is_alive(sampler.pid, sampler.starttime):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
