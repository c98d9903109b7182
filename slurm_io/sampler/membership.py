"""Which processes belong to the job, and by what that is known.

User mode: the root process and everything below it, however deep, kept when re-parented. A child
whose parents died between two looks is told by `SLURM_IO_RING_DIR` in its environment, which is
unique to the run.

Slurm mode, the surest first: the job's control group; a parent that belongs to it; what `scontrol
listpids` names; last, processes of the job's user whose environment names this job and node. An
environment can be forged or inherited, hence the owner must be the job's user, and neither the
control group nor a slurmstepd above may name another job: two jobs on one node are never mixed. The
prolog's own children carry the job id too, but no SLURM_PROCID. A container started through a
daemon (docker) lies outside the job's group: its processes are told by their environment too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Literal

from slurm_io.errors import HostError
from slurm_io.host.cgroups import SlurmPlace, parse_proc_cgroup, slurm_place
from slurm_io.host.pidstat import PidStat, parse_stat
from slurm_io.host.read import read_bytes, read_optional_text
from slurm_io.model import SamplerSpec
from slurm_io.sampler.environ_numbers import words_in
from slurm_io.sampler.processes import Process

_ENVIRON_LIMIT_BYTES = 4 * 1024 * 1024
_HIGHEST_CHAIN = 64
_STEPD = "slurmstepd"
_STEPD_TITLE = re.compile(rb"slurmstepd: \[([0-9]+)[.+\]]")

IsMember = Callable[[int], bool]
IsListed = Callable[[int, int], bool]
"""(pid, starttime) -> whether Slurm's own list names this process."""

Claim = Literal["root", "parent", "cgroup", "listpids", "environ", "outside"]
"""By what a process is known; "outside": by its environment, and outside the job's group."""


class Membership:
    """The judge of one job.

    `cgroup_pids` is what the control group holds, None without one; `sluid` its name, where known;
    `left_out` pids at which a read hangs.
    """

    def __init__(self, spec: SamplerSpec, is_listed: IsListed = lambda pid, starttime: False):
        self._spec = spec
        self._uid = spec.job.uid
        self._own_pid = os.getpid()
        self._is_listed = is_listed
        self.left_out: Collection[int] = ()
        self._adopters = self._ancestors_of(spec.root_pid or self._own_pid)
        root = self._stat(spec.root_pid) if spec.root_pid else None
        self._root_starttime = spec.root_starttime or (root.starttime if root else None)
        self._own_pids = {self._own_pid} | ({spec.attached_by} if spec.attached_by else set())
        self.cgroup_pids: frozenset[int] | None = None
        self.sluid = spec.sluid

    def claim(self, process: Process, is_member: IsMember) -> Claim | None:
        """By what the process is of this job; None when it is not. `is_member`: verdicts so far."""
        if not self._own_pids.isdisjoint((process.pid, process.ppid)) and not (
            self._is_root(process)
        ):
            return None
        if self._spec.mode == "user":
            return self._claim_of_run(process, is_member)
        if process.uid == 0 and (self._uid != 0 or process.comm.startswith(_STEPD)):
            return None  # su, sudo: what root's processes open is not told to the job's user
        return self._claim_in_slurm(process, is_member)

    def is_of_another_job(self, pid: int) -> bool:
        """Whether the process's control group names a Slurm job that is not this one."""
        place = self._place(pid)
        if place is None:
            return False
        if place.job_id is not None:
            return str(place.job_id) != self._spec.job.job
        return self.sluid is not None and place.sluid != self.sluid

    def _claim_of_run(self, process: Process, is_member: IsMember) -> Claim | None:
        if self._is_root(process):
            return "root"
        if is_member(process.ppid):
            return "parent"
        return "environ" if self._is_orphan(process) else None

    def _claim_in_slurm(self, process: Process, is_member: IsMember) -> Claim | None:
        in_group = self.cgroup_pids
        if in_group is not None and process.pid in in_group:
            return "cgroup"
        if is_member(process.ppid):
            # With groups a child outside is one born this moment, or one that was moved.
            is_others = in_group is not None and self.is_of_another_job(process.pid)
            return None if is_others else "parent"
        if process.uid != self._uid:
            return None
        if self._is_listed(process.pid, process.starttime):
            return "listpids"
        if not self._names_the_job(process):
            return None
        return "environ" if in_group is None else "outside"

    def _is_root(self, process: Process) -> bool:
        return process.pid == self._spec.root_pid and self._root_starttime in (
            None,
            process.starttime,
        )

    def _is_orphan(self, process: Process) -> bool:
        if self._spec.reads_along:  # others of the job name that folder too
            return False
        if process.uid != self._uid or process.ppid not in self._adopters:
            return False
        return self._environ(process).get(b"SLURM_IO_RING_DIR") == os.fsencode(self._spec.ring_dir)

    def _names_the_job(self, process: Process) -> bool:
        environ = self._environ(process)
        return (
            environ.get(b"SLURM_JOB_ID") == self._spec.job.job.encode()
            and b"SLURM_PROCID" in environ
            and environ.get(b"SLURMD_NODENAME", self._node()) == self._node()
            and not self._is_placed_elsewhere(process.pid)
            and self._job_of_stepd_above(process) in (None, self._spec.job.job)
        )

    def _is_placed_elsewhere(self, pid: int) -> bool:
        """With groups known, whoever sits in a job's group but not in ours is another's, also one
        of the same number (several clusters on one machine)."""
        if self.cgroup_pids is None:
            return self.is_of_another_job(pid)
        return self._place(pid) is not None

    def _place(self, pid: int) -> SlurmPlace | None:
        text = read_optional_text(self._proc(pid, "cgroup"), 65536)
        return slurm_place(parse_proc_cgroup(text or ""))

    def _job_of_stepd_above(self, process: Process) -> str | None:
        """The job of the slurmstepd that started this process; None when none is above it."""
        pid = process.ppid
        for _ in range(_HIGHEST_CHAIN):
            stat = self._stat(pid)
            if stat is None or pid <= 1:
                return None
            if stat.comm.startswith(_STEPD) and self._owner(pid) == 0:
                found = _STEPD_TITLE.match(self._read(pid, "cmdline", 65536))
                return found[1].decode() if found else None
            pid = stat.ppid
        return None

    def _ancestors_of(self, pid: int) -> set[int]:
        """Where orphans of the job end up: init, or a subreaper above the job."""
        found = {1}
        while pid > 0 and pid not in found:
            found.add(pid)
            stat = self._stat(pid)
            pid = stat.ppid if stat is not None else 0
        return found

    def _node(self) -> bytes:
        return self._spec.node.encode()

    def _environ(self, process: Process) -> Mapping[bytes, bytes]:
        return words_in(self._read(process.pid, "environ", _ENVIRON_LIMIT_BYTES))

    def _stat(self, pid: int) -> PidStat | None:
        return parse_stat(self._read(pid, "stat", 4096))

    def _owner(self, pid: int) -> int | None:
        try:
            return os.stat(self._proc(pid, "")).st_uid
        except OSError:
            return None

    def _read(self, pid: int, name: str, limit_bytes: int) -> bytes:
        """Empty when it cannot be read or is too long."""
        if pid in self.left_out:
            return b""
        try:
            return read_bytes(self._proc(pid, name), limit_bytes)
        except HostError:
            return b""

    def _proc(self, pid: int, name: str) -> Path:
        return Path(self._spec.proc_root) / str(pid) / name
