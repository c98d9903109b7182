"""Keeps the list of the job's processes and their roles."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from slurm_io.collectors.base import Member
from slurm_io.errors import HostError
from slurm_io.host.job_cgroups import JobCgroup, find_job_cgroups, processes_in
from slurm_io.host.read import read_bytes, read_optional_text
from slurm_io.model import SamplerSpec
from slurm_io.sampler.membership import Membership
from slurm_io.sampler.processes import Process, ProcessTable
from slurm_io.sampler.registered import RegisteredTasks
from slurm_io.sampler.roles import Image, RoleJudge, program_of

_YOUNG_REFRESHES = 3  # before exec a task still looks like slurmstepd: judge it again
_CGROUPS_EVERY = 30
_REREAD_EVERY = 20


class Discovery:
    """:meth:`refresh` looks; :meth:`members` is what was found. The list is replaced, not changed:
    as long as it is the same object, nothing changed."""

    def __init__(self, spec: SamplerSpec) -> None:
        self._spec = spec
        self._root = Path(spec.proc_root)
        self._table = ProcessTable(self._root)
        self._membership = Membership(spec)
        self._judge = RoleJudge(self._image_of)
        self._of_job: dict[int, Process] = {}
        self._registered = RegisteredTasks(spec.ring_dir)
        self._young: list[Process] = []
        self._images: dict[tuple[int, int, str], Image] = {}
        self._members: list[Member] = []
        self._ranks: dict[int, int | None] = {}
        self._cgroups: list[JobCgroup] = []
        self._workers: set[tuple[int, int]] = set()
        self.processes_seen = 0
        self.workers_seen = 0

    def refresh(self, ranks: Mapping[int, int | None]) -> None:
        """Look at the process table. `ranks`: pid -> global rank of the processes with a ring."""
        self._refresh_cgroup()
        new, gone = self._table.refresh()
        lost = [pid for pid in self._of_job if pid in gone or self._table.get(pid) is None]
        for pid in lost:
            del self._of_job[pid]
        joined = self._judge_membership(new) | self._join_registered()
        moved = self._reread_members()
        if lost or joined or moved or dict(ranks) != self._ranks:
            self._ranks = dict(ranks)
            self._settle_roles()

    def members(self) -> Sequence[Member]:
        """The job's processes as of the last refresh, the sampler itself left out."""
        return self._members

    def cgroup_paths(self) -> list[str]:
        """Control groups of the job."""
        return [group.path for group in self._cgroups]

    def find_pid(self, pid: int, starttime: int) -> int | None:
        """The member whose pid, in its own pid namespace, is `pid`; None when none lives.

        A process of the job's user that has a ring in the job's folder is a member, however it
        came here.
        """
        here = self._table.get(pid)
        if here is not None and here.starttime == starttime:
            if pid not in self._of_job and here.uid == self._spec.job.uid:
                self._join(here)
            return pid if pid in self._of_job else None
        same_age = (p.pid for p in self._of_job.values() if p.starttime == starttime)
        return next((other for other in same_age if self._inner_pid(other) == pid), None)

    def _refresh_cgroup(self) -> None:
        if self._spec.mode != "slurm":
            return
        if not self._cgroups or self._table.refreshes % _CGROUPS_EVERY == 0:
            sys_root = Path(self._spec.sys_root)
            self._cgroups = find_job_cgroups(
                sys_root, self._spec.job.job, node_name=self._spec.node
            )
        pids = set[int]().union(*map(processes_in, self._cgroups)) if self._cgroups else None
        self._membership.cgroup_pids = pids

    def _judge_membership(self, new: list[Process]) -> bool:
        """Parents come before children in pid order as a rule; a late one is caught next time."""
        young = [p for p in self._young if self._table.get(p.pid) is p]
        candidates = [*filter(self._looks_different, young), *new, *self._unjudged_of_cgroup()]
        joined = False
        for process in sorted(candidates, key=lambda process: process.starttime):
            if self._membership.belongs(process, self._of_job.__contains__):
                self._join(process)
                joined = True
        oldest = self._table.refreshes - _YOUNG_REFRESHES
        self._young = [
            p
            for p in (*young, *(p for p in new if not p.is_old))
            if p.pid not in self._of_job and p.first_seen > oldest
        ]
        return joined

    def _join(self, process: Process) -> None:
        self._of_job[process.pid] = process
        self.processes_seen += 1

    def _join_registered(self) -> bool:
        """The other tasks of an srun step: `slurm-io run` registered them in the ring folder."""
        if self._spec.mode != "user":
            return False
        joined = False
        for pid, starttime in self._registered.now():
            process = None if pid in self._of_job else self._table.get(pid)
            if process is not None and process.starttime == starttime:
                self._join_with_all_below(process)
                joined = True
        return joined

    def _join_with_all_below(self, process: Process) -> None:
        self._join(process)
        for other in sorted(self._table.all(), key=lambda other: other.starttime):
            if other.pid not in self._of_job and other.ppid in self._of_job:
                self._join(other)

    def _looks_different(self, process: Process) -> bool:
        """Owner, parent and name of a young process may still change (setuid, exec)."""
        before = (process.uid, process.ppid, process.comm)
        self._table.reread(process)
        process.uid = self._table.owner_of(process.pid)
        return before != (process.uid, process.ppid, process.comm)

    def _unjudged_of_cgroup(self) -> list[Process]:
        """Processes that were moved into the job's control group after they were first seen."""
        pids = (self._membership.cgroup_pids or set()) - self._of_job.keys()
        return [process for pid in pids if (process := self._table.get(pid)) is not None]

    def _reread_members(self) -> bool:
        """Names, parents and deaths of a twentieth of the members; whether anything changed."""
        changed = False
        for process in list(self._of_job.values()):
            is_turn = (process.pid + self._table.refreshes) % _REREAD_EVERY == 0
            if not is_turn and process.pid != self._spec.root_pid:
                continue
            before = (process.comm, process.ppid)
            if not self._table.reread(process):
                self._table.drop(process.pid)
                del self._of_job[process.pid]
                changed = True
            changed = changed or before != (process.comm, process.ppid)
        return changed

    def _settle_roles(self) -> None:
        self._members = self._judge.members(self._of_job, self._ranks)
        workers = {(m.pid, m.starttime) for m in self._members if m.role == "worker"}
        self.workers_seen += len(workers - self._workers)
        self._workers = workers
        living = {(m.pid, m.starttime) for m in self._members}
        self._images = {key: image for key, image in self._images.items() if key[:2] in living}

    def _image_of(self, process: Process) -> Image:
        """Read once for each name a process bears: exec changes both."""
        key = (process.pid, process.starttime, process.comm)
        image = self._images.get(key)
        if image is None:
            image = self._images[key] = self._read_image(process.pid)
        return image

    def _read_image(self, pid: int) -> Image:
        try:
            exe = os.readlink(self._root / str(pid) / "exe")
        except OSError:
            exe = None
        try:
            cmdline = read_bytes(self._root / str(pid) / "cmdline")
        except HostError:
            cmdline = b""
        return Image(exe, program_of(cmdline[:512]))

    def _inner_pid(self, pid: int) -> int | None:
        """The pid in the innermost namespace: last number of ``NSpid:`` in status."""
        text = read_optional_text(self._root / str(pid) / "status", 65536) or ""
        start = text.find("\nNSpid:")
        words = text[start + 7 : text.find("\n", start + 7)].split() if start >= 0 else []
        return int(words[-1]) if words and words[-1].isdecimal() else None
