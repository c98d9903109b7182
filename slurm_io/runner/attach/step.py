"""The srun that carries an attach onto the nodes of a running job, and what comes back from it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from slurm_io.runner.attach.node_part import LOAD_HOOK, STACKS
from slurm_io.runner.attach.place import AttachOptions
from slurm_io.runner.attach.result import tell
from slurm_io.slurm.hostlist import compress
from slurm_io.slurm.jobs import Job, slurm_tool

IMMEDIATE_S = 60  # how long srun may wait for the step to be created
_OURS = "slurm-io: "
_MOST_KEPT = 20
_AFTER_KILL_S = 20.0


def command(job: Job, nodes: tuple[str, ...], store: Path, options: AttachOptions) -> list[str]:
    """The srun command: one task a node, beside the job's own steps and with their resources."""
    leader, component = job.het or (job.job_id, None)
    return [
        slurm_tool("srun"),
        "--overlap",
        f"--jobid={leader}",
        *([] if component is None else [f"--het-group={component}"]),
        f"--nodes={len(nodes)}",
        f"--nodelist={compress(nodes)}",
        f"--ntasks={len(nodes)}",
        "--ntasks-per-node=1",
        "--input=none",
        "--mpi=none",
        "--kill-on-bad-exit=0",
        f"--immediate={IMMEDIATE_S}",
        "--job-name=slurm-io-attach",
        sys.executable,
        "-m",
        "slurm_io.runner.attach.node_part",
        str(store),
        f"{options.duration_s:g}",
        *([LOAD_HOOK] if options.load_hook else []),
        *([STACKS] if options.stacks else []),
    ]


class StepOnNodes:
    """A running srun; a context manager that leaves none behind.

    It has a session of its own, so that a terminal's Ctrl-C reaches us and not it: srun's way to
    obey one is to kill the tasks. SIGUSR1 it passes on to them.
    """

    def __init__(self, argv: list[str], env: Mapping[str, str]) -> None:
        self._srun = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=dict(env),
            start_new_session=True,
        )
        assert self._srun.stderr is not None
        self._stderr: IO[bytes] = self._srun.stderr
        os.set_blocking(self._stderr.fileno(), False)
        self._rest = b""
        self.said: deque[str] = deque(maxlen=_MOST_KEPT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self.listen()
        self._stderr.close()

    def is_over(self) -> bool:
        """Whether srun has ended; passes on what it said meanwhile."""
        over = self._srun.poll() is not None
        self.listen()
        return over

    def ask_to_stop(self) -> None:
        """The tasks end their sampling and deliver."""
        self._signal(signal.SIGUSR1)

    def kill(self) -> None:
        """The tasks die by Slurm's hand; what they had stays in their spools."""
        self._signal(signal.SIGTERM)
        try:
            self._srun.wait(_AFTER_KILL_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._srun.wait()

    def listen(self) -> None:
        """Our tasks' lines go to the user at once, srun's own are kept."""
        while True:
            try:
                chunk = os.read(self._stderr.fileno(), 65536)
            except BlockingIOError:
                return
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._take(line.decode(errors="replace") for line in lines)
            if not chunk:
                return

    def last_words(self) -> str:
        """Why srun failed, in its own words."""
        errors = [line for line in self.said if "error:" in line]
        chosen = errors[0] if errors else (self.said[-1] if self.said else "srun said nothing")
        return chosen.removeprefix("srun: ").removeprefix("error: ")[:300]

    def _take(self, lines: Iterable[str]) -> None:
        for line in lines:
            if line.startswith(_OURS):
                tell(line.removeprefix(_OURS))
            elif line.strip():
                self.said.append(line.strip())

    def _signal(self, number: signal.Signals) -> None:
        if self._srun.poll() is None:
            self._srun.send_signal(number)
