"""A job's control groups (v1) around a command, with limits: a quota of CPU time, a memory limit.

    with JobGroup(cpus=0.5) as group:
        run(["slurm-io", "run", "--", *group.wrapped(command)], env=group.environment())

The groups have the names Slurm gives them, for a job and a node that exist nowhere else.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from slurm_io.host.job_cgroups import v1_controllers

SYS = Path("/sys")
CONTROLLERS = ("cpu", "cpuacct", "memory")
PERIOD_US = 100_000


def job_group_missing() -> str | None:
    """Why such groups cannot be made here; None when they can."""
    if os.geteuid() != 0:
        return "making control groups needs root"
    missing = [name for name in CONTROLLERS if name not in v1_controllers(SYS)]
    return f"no cgroup v1 controller is mounted here for {', '.join(missing)}" if missing else None


class JobGroup:
    """One job's groups, gone with the ``with`` block, when their processes are."""

    def __init__(self, cpus: float | None = None, memory_bytes: int | None = None) -> None:
        self.node = f"lab{os.getpid()}"
        self.job = str(os.getpid())
        self._cpus = cpus
        self._memory_bytes = memory_bytes
        path = f"slurm_{self.node}/uid_{os.getuid()}/job_{self.job}"
        roots = v1_controllers(SYS)
        self._folders = {name: roots[name] / path for name in CONTROLLERS}
        self._undo = ExitStack()

    def folder(self, controller: str) -> Path:
        """Of one controller."""
        return self._folders[controller]

    def environment(self) -> dict[str, str]:
        """What a process of the job is told by Slurm."""
        return {"SLURM_JOB_ID": self.job, "SLURMD_NODENAME": self.node}

    def wrapped(self, command: list[str]) -> list[str]:
        """`command`, started inside the groups."""
        joins = " && ".join(f"echo $$ > {path}/cgroup.procs" for path in self._folders.values())
        return ["/bin/sh", "-c", f'{joins} && exec "$@"', "sh", *command]

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            for folder in self._folders.values():
                for each in reversed([folder, *list(folder.parents)[:2]]):
                    if not each.exists():
                        each.mkdir()
                        undo.callback(_remove, each)
            self._limit()
            self._undo = undo.pop_all()
        return self

    def _limit(self) -> None:
        if self._cpus is not None:
            (self._folders["cpu"] / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            quota_us = int(self._cpus * PERIOD_US)
            (self._folders["cpu"] / "cpu.cfs_quota_us").write_text(str(quota_us))
        if self._memory_bytes is not None:
            path = self._folders["memory"] / "memory.limit_in_bytes"
            path.write_text(str(self._memory_bytes))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._undo.close()


def _remove(folder: Path) -> None:
    for _ in range(100):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # the processes in it are still ending
            time.sleep(0.05)
        else:
            return
