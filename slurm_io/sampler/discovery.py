"""Keeps the list of the job's processes and their roles."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_io.collectors.base import Member
from slurm_io.errors import HostError
from slurm_io.host.read import read_bytes, read_optional_text
from slurm_io.model import SamplerSpec
from slurm_io.sampler.allowed_cpus import AllowedCpus
from slurm_io.sampler.environ_ranks import EnvironRanks
from slurm_io.sampler.job_groups import JobGroups
from slurm_io.sampler.listed_pids import ListedPids
from slurm_io.sampler.membership import Membership
from slurm_io.sampler.processes import Process, ProcessTable
from slurm_io.sampler.registered import RegisteredTasks
from slurm_io.sampler.roles import Image, RoleJudge, program_of
from slurm_io.sampler.unseen import Unseen
from slurm_io.slurm.listpids import ask_listpids

_YOUNG_REFRESHES = 3  # before exec a task still looks like slurmstepd: judge it again
_REREAD_EVERY = 20
_MOST_HUNG_NAMED = 64
_REREADS_OF_THE_YOUNG = (1, 2, 5)  # a child executes its program soon after the fork


class Discovery:
    """:meth:`refresh` looks; :meth:`members` is what was found. The list is replaced, not changed:
    as long as it is the same object, nothing changed.

    A refresh may be left behind at any read and begun anew (:mod:`.relay`): what it had found by
    then, and had not judged or settled, waits in `_to_judge` and `_is_unsettled`.
    """

    def __init__(self, spec: SamplerSpec) -> None:
        self._spec = spec
        self._root = Path(spec.proc_root)
        self._table = ProcessTable(self._root)
        self._groups = JobGroups(spec)
        self._listed = ListedPids(spec.job.job, spec.node, ask_listpids)
        self._membership = Membership(spec, self._listed.means)
        self._membership.left_out = self._table.left_out
        self._unseen = Unseen()
        self._hung: dict[int, dict[str, Any]] = {}
        self._hung_members: set[int] = set()
        self._found_by: Counter[str] = Counter()
        self._judge = RoleJudge(self._image_of)
        self._of_job: dict[int, Process] = {}
        self._registered = RegisteredTasks(spec.ring_dir)
        self._is_attached = spec.attached_by is not None
        self._environ_ranks = EnvironRanks(self._root)
        self.allowed_cpus = AllowedCpus(self._root)
        self._young: list[Process] = []
        self._to_judge: list[Process] = []
        self._is_unsettled = False
        self._images: dict[tuple[int, int, str, int], Image] = {}
        self._members: list[Member] = []
        self._ranks: dict[int, int | None] = {}
        self._workers: set[tuple[int, int]] = set()
        self.processes_seen = 0
        self.workers_seen = 0

    def refresh(self, ranks: Mapping[int, int | None]) -> None:
        """Look at the process table. `ranks`: pid -> global rank of the processes with a ring."""
        now_s = time.monotonic()
        self._ask_slurm(now_s)
        in_group = self._membership.cgroup_pids
        if self._table.left_out and in_group is not None:
            self._table.wanted = in_group | self._of_job.keys()
        back = self._hung_members - self._table.left_out
        new, gone = self._table.refresh()
        self._to_judge += new
        for process in list(self._of_job.values()):
            if process.pid in gone or self._table.get(process.pid) is not process:
                self._lose(process)
        self._judge_membership()
        self._join_registered()
        self._reread_members()
        ranks = self._environ_ranks.add_to(ranks, self._of_job, self._is_unsettled)
        if dict(ranks) != self._ranks:
            self._ranks, self._is_unsettled = dict(ranks), True
        if self._is_unsettled:
            self._settle_roles()
        if self._table.was_listed:  # until then they lived, although nobody had looked at them
            self._hung_members -= back
        self._note_unseen(now_s)

    def members(self) -> Sequence[Member]:
        """The job's processes as of the last refresh, the sampler itself left out."""
        return self._members

    def cgroup_paths(self) -> list[str]:
        """Control groups of the job."""
        return self._groups.paths()

    def facts(self) -> dict[str, Any]:
        """By what the processes were found, and which of them cannot be looked at. ``hung``: those
        whose files in /proc do not answer, the job's or not, `file` being the one that did not."""
        left_out = self._table.left_out
        return {
            "found_by": dict(self._found_by),
            **self._unseen.to_dict(),
            "hung": [{**facts, "still": pid in left_out} for pid, facts in self._hung.items()],
            "listpids": self._listed.to_dict() if self._listed.asked else None,
        }

    def ranks_told(self, hooked: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Entries for meta.json's ``ranks`` beside `hooked`, those of processes with a ring."""
        return self._environ_ranks.facts(
            [(one["pid"], one["starttime"]) for one in hooked], {one["rank"] for one in hooked}
        )

    @property
    def hung_members(self) -> int:
        """How many processes of the job live, but hang so that nobody can look at them."""
        return len(self._hung_members)

    def leave_out(self, pid: int, file: str) -> None:
        """A read of this file of /proc/PID does not return: touch nothing of that process until
        :meth:`take_back`. Not to be called beside :meth:`refresh`."""
        self._table.leave_out(pid)
        process = self._of_job.pop(pid, None)
        of_job = process is not None or pid in (self._membership.cgroup_pids or ())
        if of_job:
            self._hung_members.add(pid)
        self._members = [member for member in self._members if member.pid != pid]
        if pid in self._hung or len(self._hung) < _MOST_HUNG_NAMED:
            comm = process.comm if process is not None else None
            self._hung[pid] = {"pid": pid, "file": file, "comm": comm, "of_job": of_job}

    def take_back(self, pid: int) -> None:
        """The read has returned: the process is looked at as a new one."""
        self._table.take_back(pid)

    def close(self) -> None:
        """Leave no child behind."""
        self._listed.close()

    def find_pid(self, pid: int, starttime: int, pid_ns: int | None = None) -> int | None:
        """The member whose pid, in its own pid namespace, is `pid`; None when none lives.

        Processes of two containers can have the same pid and start time: `pid_ns` (the number of
        the namespace) tells them apart. A process of the job's user that has a ring in the job's
        folder is a member, however it came here.
        """
        here = self._table.get(pid)
        if here is not None and here.starttime == starttime and self._is_in(pid, pid_ns):
            # Other trees of the job put their rings into the folder that an attach reads along.
            is_told = self._spec.mode == "slurm" or not self._is_attached
            if pid not in self._of_job and here.uid == self._spec.job.uid and is_told:
                self._join(here, "ring")
            return pid if pid in self._of_job else None
        same_age = (p.pid for p in self._of_job.values() if p.starttime == starttime)
        return next(
            (
                other
                for other in same_age
                if self._inner_pid(other) == pid and self._is_in(other, pid_ns)
            ),
            None,
        )

    def _ask_slurm(self, now_s: float) -> None:
        """The job's control groups; without one, scontrol."""
        if self._spec.mode != "slurm":
            return
        self._groups.refresh(self._table.refreshes)
        if not self._groups.groups:
            self._listed.refresh(now_s)
            self._groups.adopt(self._listed.pids, self._table.refreshes)
        self._membership.cgroup_pids = self._groups.pids()
        self._membership.sluid = self._groups.sluid() or self._spec.sluid

    def _note_unseen(self, now_s: float) -> None:
        in_group = self._membership.cgroup_pids
        unknown = (pid for pid in in_group or () if self._table.get(pid) is None)
        missing = frozenset(unknown) - self._table.left_out
        self._unseen.look(missing, self._groups.foreign, self._table.zombies, self._of_job)
        self._unseen.note_emptiness(now_s, in_group is not None, bool(in_group or self._of_job))

    def _judge_membership(self) -> None:
        """Parents come before children in pid order as a rule; a late one is caught next time."""
        new = [p for p in self._to_judge if self._table.get(p.pid) is p]
        young = [p for p in self._young if self._table.get(p.pid) is p]
        candidates = [*filter(self._looks_different, young), *new, *self._unjudged()]
        for process in sorted(candidates, key=lambda process: process.starttime):
            if process.pid in self._of_job:
                continue
            claim = self._membership.claim(process, self._of_job.__contains__)
            if claim is not None:
                self._join(process, claim)
        oldest = self._table.refreshes - _YOUNG_REFRESHES
        self._young = [
            p
            for p in (*young, *(p for p in new if not p.is_old))
            if p.pid not in self._of_job and p.first_seen > oldest
        ]
        self._to_judge = []

    def _join(self, process: Process, claim: str) -> None:
        self._of_job[process.pid] = process
        self._is_unsettled = True
        self.processes_seen += 1
        self._found_by[claim] += 1

    def _lose(self, process: Process) -> None:
        del self._of_job[process.pid]
        self._is_unsettled = True
        zombie = self._table.zombies.get(process.pid)
        if zombie is not None and zombie.starttime == process.starttime:
            self._unseen.ended(process.pid, process.starttime)

    def _join_registered(self) -> None:
        """The other tasks of an srun step: `slurm-io run` registered them in the ring folder."""
        if self._spec.mode != "user" or self._is_attached:
            return
        for pid, starttime in self._registered.now():
            process = None if pid in self._of_job else self._table.get(pid)
            if process is not None and process.starttime == starttime:
                self._join_with_all_below(process)

    def _join_with_all_below(self, process: Process) -> None:
        self._join(process, "task")
        for other in sorted(self._table.all(), key=lambda other: other.starttime):
            if other.pid not in self._of_job and other.ppid in self._of_job:
                self._join(other, "parent")

    def _looks_different(self, process: Process) -> bool:
        """Owner, parent and name of a young process may still change (setuid, exec)."""
        before = (process.uid, process.ppid, process.image)
        self._table.reread(process)
        process.uid = self._table.owner_of(process.pid)
        return before != (process.uid, process.ppid, process.image)

    def _unjudged(self) -> list[Process]:
        """Processes that Slurm names and that were there before: moved into the job's control
        group, listed by scontrol, or another one under a pid that was seen with its last owner."""
        named: Iterable[int] = self._membership.cgroup_pids or self._listed.pids
        known = (self._table.get(pid) for pid in named if pid not in self._of_job)
        seen_before = [
            process
            for process in known
            if process is not None and process.first_seen < self._table.refreshes
        ]
        return [now for old in seen_before if (now := self._fresh(old)) is not None]

    def _fresh(self, process: Process) -> Process | None:
        """The process that has this pid now."""
        return process if self._table.reread(process) else self._table.read_again(process.pid)

    def _reread_members(self) -> None:
        """Names, parents and deaths of a twentieth of the members and of the youngest."""
        for process in list(self._of_job.values()):
            is_turn = (process.pid + self._table.refreshes) % _REREAD_EVERY == 0
            is_young = self._table.refreshes - process.first_seen in _REREADS_OF_THE_YOUNG
            if not is_turn and not is_young and process.pid != self._spec.root_pid:
                continue
            before = (process.image, process.ppid)
            if not self._table.reread(process):
                self._table.drop(process.pid)
                self._lose(process)
            elif self._was_moved_away(process):
                self._lose(process)
            elif before != (process.image, process.ppid):
                self._is_unsettled = True

    def _was_moved_away(self, process: Process) -> bool:
        """Whether a member sits in another job's control group by now."""
        in_group = self._membership.cgroup_pids
        return (
            in_group is not None
            and process.pid not in in_group
            and self._membership.is_of_another_job(process.pid)
        )

    def _settle_roles(self) -> None:
        self._members = self._judge.members(self._of_job, self._ranks)
        self.allowed_cpus.note(self._members)
        workers = {(m.pid, m.starttime) for m in self._members if m.role == "worker"}
        self.workers_seen += len(workers - self._workers)
        # Before its first batch a hooked rank may look like a worker of what started it.
        self.workers_seen -= sum(
            m.role == "rank" and (m.pid, m.starttime) in self._workers for m in self._members
        )
        self._workers = workers
        self._is_unsettled = False
        living = {(m.pid, m.starttime) for m in self._members}
        self._images = {key: image for key, image in self._images.items() if key[:2] in living}

    def _image_of(self, process: Process) -> Image:
        """Read once for each program a process executes."""
        key = process.image
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

    def _is_in(self, pid: int, pid_ns: int | None) -> bool:
        """Whether a process is in that pid namespace, as far as anybody may know."""
        if pid_ns is None:
            return True
        try:
            return os.readlink(self._root / str(pid) / "ns/pid") == f"pid:[{pid_ns}]"
        except OSError:
            return True

    def _inner_pid(self, pid: int) -> int | None:
        """The pid in the innermost namespace: last number of ``NSpid:`` in status."""
        text = read_optional_text(self._root / str(pid) / "status", 65536) or ""
        start = text.find("\nNSpid:")
        words = text[start + 7 : text.find("\n", start + 7)].split() if start >= 0 else []
        return int(words[-1]) if words and words[-1].isdecimal() else None
