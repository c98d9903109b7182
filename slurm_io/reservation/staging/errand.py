"""A command of ours that runs on one node for long, through Slurm, and is followed from here."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

from slurm_io.errors import HostError, SlurmError
from slurm_io.host.run import run
from slurm_io.reservation.reach.asking import why_silent
from slurm_io.reservation.reach.limits import ReachLimits
from slurm_io.reservation.reach.srun import Srun, environment
from slurm_io.reservation.reach.ways import Group
from slurm_io.reservation.staging.on_node import BEAT_S, BEGAN, STOP
from slurm_io.slurm.tools import tool_path

JOB_NAME = "slurm_io-stage"
ON_NODE = "slurm_io.reservation.staging.on_node"
_KEPT_LINES = 50
_GRACE_S = 30.0
_START_S = 120.0
_SCANCEL_S = 20.0
_PREFIX = "slurm-io: "
OnLine = Callable[[str], None]


class Errand:
    """``slurm-io ARGUMENTS`` on a node, in a thread of its own until it ends or is stopped."""

    def __init__(
        self,
        group: Group,
        arguments: tuple[str, ...],
        stdin: bytes,
        time_limit_s: float,
        limits: ReachLimits,
        on_out: OnLine,
        on_err: OnLine,
    ) -> None:
        self.group = group
        self._name = f"{JOB_NAME}-{secrets.token_hex(6)}"
        self._argv = _command(group, arguments, time_limit_s, limits, self._name)
        self._stdin = stdin
        self._limits = limits
        self._on_out, self._on_err = on_out, on_err
        self._stop = threading.Event()
        self._stopped_s = self._beat_s = time.monotonic()
        self._started_s = self._beat_s
        self._told = self._began = False
        self._said: deque[str] = deque(maxlen=_KEPT_LINES)
        self._problem: str | None = None
        self.rc: int | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs any more."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End it in order, with its job; what does not end so is killed."""
        if not self._stop.is_set():
            self._stopped_s = time.monotonic()
            self._stop.set()

    def wait(self, timeout_s: float | None = None) -> None:
        """Until it is over."""
        self._thread.join(timeout_s)

    def last_words(self) -> str:
        """Why it ended as it did."""
        if self._problem is not None:
            return self._problem
        ours = [line for line in self._said if line.startswith(_PREFIX)]
        return ours[-1].removeprefix(_PREFIX) if ours else why_silent(list(self._said))

    def _run(self) -> None:
        first = b"%d\n%b" % (len(self._stdin), self._stdin)
        try:
            with Srun(self._argv, None, self._limits.after_kill_s) as srun:
                ended = srun.talk(first, self._is_given_up, self._out, self._err, self._beat)
                rc = srun.end()
            self.rc = rc if ended else None
        except (HostError, SlurmError) as error:
            self._problem = str(error)
            return
        if not ended and self.group.kind == "job":
            self._cancel()

    def _beat(self) -> bytes:
        now_s = time.monotonic()
        if self._stop.is_set() and not self._told:
            self._told = True
            return STOP
        if now_s - self._beat_s < BEAT_S:
            return b""
        self._beat_s = now_s
        return b"\n"

    def _is_given_up(self) -> bool:
        now_s = time.monotonic()
        if not self._began and now_s - self._started_s > _START_S:
            self._problem = f"Slurm did not start it within {_START_S:.0f} s"
            self._problem += f": {why_silent(list(self._said))}"
            return True
        return self._stop.is_set() and (not self._began or now_s - self._stopped_s > _GRACE_S)

    def _out(self, line: bytes) -> None:
        self._on_out(line.decode("utf-8", "replace"))

    def _err(self, line: bytes) -> None:
        text = "".join(
            each if each.isprintable() else "?" for each in line.decode("utf-8", "replace")[:500]
        )
        self._began = self._began or text == BEGAN
        self._said.append(text)
        if text.startswith(_PREFIX):
            self._on_err(text.removeprefix(_PREFIX))

    def _cancel(self) -> None:
        with contextlib.suppress(HostError, SlurmError):
            run(
                [
                    tool_path("scancel", self._limits.folders),
                    f"--name={self._name}",
                    f"--user={os.geteuid()}",
                ],
                _SCANCEL_S,
                extra_environment=environment(),
            )


def _command(
    group: Group, arguments: tuple[str, ...], time_limit_s: float, limits: ReachLimits, name: str
) -> list[str]:
    """Raises SlurmError when there is no srun."""
    (node,) = group.nodes
    words = ["--no-allocate"]
    if group.kind == "job":
        words = [f"--job-name={name}", f"--time={max(1, int(time_limit_s / 60))}"]
        words += [f"--reservation={group.reservation}"] if group.reservation else []
        words += [f"--partition={group.partition}"] if group.partition else []
    return [
        tool_path("srun", limits.folders),
        *words,
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={node}",
        "--chdir=/",
        "--mpi=none",
        "--unbuffered",
        sys.executable,
        "-m",
        ON_NODE,
        *arguments,
    ]
