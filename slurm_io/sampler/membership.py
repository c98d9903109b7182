"""Which processes belong to the job.

User mode: the root process and everything below it, however deep, kept when re-parented. A child
whose parents died between two looks is told by `SLURM_IO_RING_DIR` in its environment, which is
unique to the run. Slurm mode: the job's control group; without one, children of members, and
processes of the job's user whose environment names this job and node. The environment can be
forged, hence the owner must be the job's user as well; the prolog's own children carry the job id
too, but no SLURM_PROCID.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from slurm_io.errors import HostError
from slurm_io.host.pidstat import parse_stat
from slurm_io.host.read import read_bytes
from slurm_io.model import SamplerSpec
from slurm_io.sampler.processes import Process

_ENVIRON_LIMIT_BYTES = 4 * 1024 * 1024

IsMember = Callable[[int], bool]


class Membership:
    """The judge of one job. `cgroup_pids` is what the control group holds; None without one."""

    def __init__(self, spec: SamplerSpec) -> None:
        self._spec = spec
        self._uid = spec.job.uid
        self._own_pid = os.getpid()
        self._adopters = self._ancestors_of(spec.root_pid or self._own_pid)
        self.cgroup_pids: set[int] | None = None

    def belongs(self, process: Process, is_member: IsMember) -> bool:
        """Whether the process is of this job. `is_member` knows the verdicts so far."""
        if (
            process.pid == self._own_pid
            or process.ppid == self._own_pid
            and not self._is_root(process)
        ):
            return False
        if self._spec.mode == "user":
            return self._is_root(process) or is_member(process.ppid) or self._is_orphan(process)
        if process.uid == 0 and self._uid != 0:
            return False  # su, sudo: what root's processes open is not told to the job's user
        if self.cgroup_pids is not None and process.pid in self.cgroup_pids:
            return True
        if is_member(process.ppid):
            return True
        return self.cgroup_pids is None and self._names_the_job(process)

    def _is_root(self, process: Process) -> bool:
        return process.pid == self._spec.root_pid

    def _is_orphan(self, process: Process) -> bool:
        if process.uid != self._uid or process.ppid not in self._adopters:
            return False
        return self._environ(process).get(b"SLURM_IO_RING_DIR") == os.fsencode(self._spec.ring_dir)

    def _names_the_job(self, process: Process) -> bool:
        if process.uid != self._uid:
            return False
        environ = self._environ(process)
        return (
            environ.get(b"SLURM_JOB_ID") == self._spec.job.job.encode()
            and b"SLURM_PROCID" in environ
            and environ.get(b"SLURMD_NODENAME", self._node()) == self._node()
        )

    def _ancestors_of(self, pid: int) -> set[int]:
        """Where orphans of the job end up: init, or a subreaper above the job."""
        found = {1}
        while pid > 0 and pid not in found:
            found.add(pid)
            try:
                stat = parse_stat(read_bytes(f"{self._spec.proc_root}/{pid}/stat"))
            except HostError:
                stat = None
            pid = stat.ppid if stat is not None else 0
        return found

    def _node(self) -> bytes:
        return self._spec.node.encode()

    def _environ(self, process: Process) -> dict[bytes, bytes]:
        path = Path(self._spec.proc_root) / str(process.pid) / "environ"
        try:
            raw = read_bytes(path, _ENVIRON_LIMIT_BYTES)
        except HostError:
            return {}
        pairs = (entry.partition(b"=") for entry in raw.split(b"\0"))
        return {name: value for name, sep, value in pairs if sep}
