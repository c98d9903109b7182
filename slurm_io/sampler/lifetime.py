"""When a sampler ends by itself, so that a lost SIGTERM never leaves one behind.

User mode: the root process and all below it are gone. Slurm mode: no process of the job for
`idle_exit_s` and Slurm says that the job is over; when Slurm cannot be asked, after twelve times
that long. Always at `max_lifetime_s`, and when the process that it was attached by is gone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Literal

from slurm_io.errors import HostError
from slurm_io.model import SamplerSpec

JobState = Literal["alive", "over", "unknown"]
EndReason = Literal[
    "job ended", "no process of the job", "longest lifetime", "who attached is gone"
]

_SLURM_FOLDERS = ("/opt/slurm/bin", "/usr/local/slurm/bin")
_TIMEOUT_S = 5.0
_GONE_LOOKS = 2
_PATIENCE = 12
_STATE = re.compile(r"\bJobState=([A-Z_]+)")
_RESTARTS = re.compile(r"\bRestarts=([0-9]+)")
_ALIVE = {
    "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "SIGNALING", "STAGE_OUT",
    "RESIZING",
}  # fmt: skip


class Lifetime:
    """Ask :meth:`end_reason` once a second. `ask` tells what Slurm says of the job."""

    def __init__(
        self,
        spec: SamplerSpec,
        start_s: float,
        ask: Callable[[], JobState],
        uniform: Callable[[], float],
    ) -> None:
        self._spec = spec
        self._start_s = start_s
        self._ask = ask
        self._uniform = uniform
        self._last_seen_s = start_s
        self._looks_without = 0
        self._ask_at_s: float | None = None

    def end_reason(self, now_s: float, processes: int) -> EndReason | None:
        """Why to stop now, or None. `processes` is how many of the job live."""
        if now_s - self._start_s >= self._spec.max_lifetime_s:
            return "longest lifetime"
        if self._spec.attached_by is not None and os.getppid() != self._spec.attached_by:
            return "who attached is gone"
        if processes:
            self._last_seen_s, self._looks_without, self._ask_at_s = now_s, 0, None
            return None
        self._looks_without += 1
        if self._spec.mode == "user":
            return "job ended" if self._looks_without >= _GONE_LOOKS else None
        return self._slurm_end(now_s)

    def _slurm_end(self, now_s: float) -> EndReason | None:
        idle_s = now_s - self._last_seen_s
        if idle_s < self._spec.idle_exit_s:
            return None
        if self._ask_at_s is None:
            self._ask_at_s = now_s + 0.2 * self._uniform() * self._spec.idle_exit_s
        if now_s < self._ask_at_s:
            return None
        self._ask_at_s = now_s + (1 + self._uniform()) * self._spec.idle_exit_s
        state = self._ask()
        if state == "over":
            return "job ended"
        if state == "unknown" and idle_s >= _PATIENCE * self._spec.idle_exit_s:
            return "no process of the job"
        return None


def ask_scontrol(job: str, restart: int) -> JobState:
    """What ``scontrol -o show job`` says; unknown when it cannot be asked within 5 s."""
    # Imported here: needed once in a job's life at most, and a megabyte for all of it.
    from slurm_io.host.run import find_tool, run

    scontrol = find_tool("scontrol", _SLURM_FOLDERS)
    if scontrol is None:
        return "unknown"
    environment = {name: os.environ[name] for name in ("SLURM_CONF",) if name in os.environ}
    try:
        answer = run(
            [scontrol, "-o", "show", "job", job], _TIMEOUT_S, extra_environment=environment
        )
    except HostError:
        return "unknown"
    return state_in(answer.stdout, answer.stderr, restart)


def state_in(stdout: str, stderr: str, restart: int) -> JobState:
    """Read scontrol's answer. A job that slurmctld forgot, or that runs again under the same
    number, is over."""
    states = _STATE.findall(stdout)
    if not states:
        return "over" if "Invalid job id" in stderr else "unknown"
    restarts = [int(number) for number in _RESTARTS.findall(stdout)]
    if restarts and restart not in restarts:
        return "over"
    return "alive" if any(state in _ALIVE for state in states) else "over"
