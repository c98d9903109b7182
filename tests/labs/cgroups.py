"""Real control groups with the shape that Slurm gives them, below the machine's own root.

    with SlurmGroups("v1") as groups:
        groups.make("12", uid=1000)
        groups.put("12", process.pid)

The name of the node in them is made up, so that no sampler of a real job takes them for its own.
Needs root; `groups_missing` says why they cannot be had.
"""

from __future__ import annotations

import contextlib
import os
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from slurm_io.host.job_cgroups import unified_root, v1_controllers

Version = Literal["v1", "v2"]
SYS = Path("/sys")
# How deep Slurm's groups go differs from controller to controller.
V1_DEPTHS = {
    "freezer": "step_0",
    "cpuset": "step_0",
    "memory": "step_0/task_0",
    "cpuacct": "step_0/task_0",
    "devices": "step_0/task_0",
}
V2_PLACE = "step_0/user/task_0"


def groups_missing(version: Version) -> str | None:
    """Why such groups cannot be made here; None when they can."""
    if os.geteuid() != 0:
        return "making control groups needs root"
    if version == "v1":
        found = v1_controllers(SYS).keys() & V1_DEPTHS.keys()
        return None if "memory" in found else "no cgroup v1 memory controller is mounted here"
    root = unified_root(SYS)
    if root is None:
        return "no cgroup v2 hierarchy is mounted here"
    return None if os.access(root, os.W_OK) else f"{root} cannot be written"


class SlurmGroups:
    """Groups of any number of jobs; gone with the ``with`` block, when their processes are."""

    def __init__(self, version: Version, node: str | None = None) -> None:
        self.node = node or f"sio{os.getpid()}"
        self._version = version
        self._undo = ExitStack()

    def make(self, job: str, uid: int = 0) -> None:
        """The folders of one job with one step and one task."""
        for folder in self._tasks(job, uid):
            self._make_all(folder)

    def put(self, job: str, pid: int, uid: int = 0) -> None:
        """Move a process into the job's task; its later children follow it."""
        for folder in self._tasks(job, uid):
            (folder / "cgroup.procs").write_text(str(pid))

    def limit_memory(self, job: str, n_bytes: int, uid: int = 0) -> None:
        """Slurm limits the job, not the task (v1 only)."""
        root = v1_controllers(SYS)["memory"]
        path = root / f"slurm_{self.node}/uid_{uid}/job_{job}/memory.limit_in_bytes"
        path.write_text(str(n_bytes))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._undo.close()

    def _tasks(self, job: str, uid: int) -> list[Path]:
        if self._version == "v2":
            root = unified_root(SYS)
            assert root is not None
            scope = f"sio_test.slice/{self.node}_slurmstepd.scope"
            return [root / scope / f"job_{job}" / V2_PLACE]
        of_job = f"slurm_{self.node}/uid_{uid}/job_{job}"
        roots = v1_controllers(SYS)
        return [roots[name] / of_job / V1_DEPTHS[name] for name in V1_DEPTHS if name in roots]

    def _make_all(self, folder: Path) -> None:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir()
            self._undo.callback(_remove, each)
            _inherit_cpuset(each)


def _inherit_cpuset(folder: Path) -> None:
    """A new v1 cpuset takes no process before it has CPUs and memory nodes."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        with contextlib.suppress(OSError):
            (folder / name).write_text((folder.parent / name).read_text())


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
