"""What ranks and loader workers wait for, sampled several times a second without ptrace.

Source: /proc/PID/task/TID/{syscall,wchan}, for storage waits also fd, fdinfo, mountinfo and maps.
Columns: schema.WAITS.
Needs: root, or an ancestor of the ranks with the same user (Yama mode 1 lets only those read
``syscall``); elsewhere every sample reads ``unknown`` and the facts say why.
Cost: 6 to 12 µs a process and pass, 50 µs for each new storage target, at most 24 of those a
second. When the governor slows the passes, a rank in its step and its workers are looked at every
two seconds only, and that look counts for the passes until the next: the samples of that phase are
as many as before and stand for the same time, with less behind each. Passes that find a rank in a
data wait, a save or a load look at it every time. Slowed below one look a second, passes still come
every second, and each looks at a part of the ranks with all their workers: each rank once in a
round, at a moment drawn by chance. ``passes`` counts the looks at that rank.
"""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Member, Row, Tick
from slurm_io.collectors.waits.fds import FdReader
from slurm_io.collectors.waits.judge import SAYS_NOTHING, most_telling
from slurm_io.collectors.waits.reading import REFUSED, Classifier, Reading
from slurm_io.collectors.waits.remembered import RememberedDescriptors
from slurm_io.collectors.waits.rounds import Rounds
from slurm_io.collectors.waits.syscalls import table_for
from slurm_io.collectors.waits.tally import COUNTED, Look, Tally
from slurm_io.collectors.waits.targets import Target, TargetFinder
from slurm_io.collectors.waits.threads import ProcessProbe
from slurm_io.host.read import read_optional_line

_DESCRIPTORS_PER_PROCESS = 8
_KEPT_SHARE_OF_DESCRIPTORS = 0.5
_MOST_OUTSIDERS = 64
_MOST_REFUSED_KEPT = 4096

_HELD_PHASE = "step"

Crew = tuple[int | None, int | None, str, list[Member]]
"""(pid of the rank, rank, role, the processes that count in one row)."""


@dataclass(slots=True)
class _ProbedCrew:
    """`held`: the last look at it in a step, made at `looked_ns`."""

    rank: int | None
    role: str
    probes: list[ProcessProbe]
    held: Look | None = None
    looked_ns: int = 0


@COLLECTORS.register("waits")
class WaitsCollector:
    """:meth:`sample` is one pass; :meth:`collect` turns the passes since the last one into rows.

    `hold_ns`: for so long a look at a rank in its step stands for the passes that follow. `rounds`:
    which ranks, each with its workers, a pass looks at.
    """

    name = "waits"
    table = "waits"
    period_s = 1.0

    def __init__(self) -> None:
        self._probes: dict[int, ProcessProbe] = {}
        self._tally = Tally()
        self._mounts_seen: dict[str, str] = {}
        self._members: Sequence[Member] = ()
        self._crews: dict[int | None, list[_ProbedCrew]] = {}
        self._refused = 0
        self._refused_processes: set[tuple[int, int]] = set()
        self.passes = 0
        self.hold_ns = 0
        self.rounds = Rounds(random.Random())
        soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most_kept = int(soft * _KEPT_SHARE_OF_DESCRIPTORS / _DESCRIPTORS_PER_PROCESS)

    def open(self, context: Context) -> Availability:
        """Whether this kernel has the files at all; refusals show when a process is read."""
        self._context = context
        self._fds = FdReader(context.proc_root)
        self._remembered = RememberedDescriptors(self._fds)
        self._classifier = Classifier(table_for(), self._remembered)
        self._targets = TargetFinder(context.proc_root, self._fds, self._mounts_seen)
        own = context.proc_root / "self"
        missing = [name for name in ("syscall", "wchan") if not (own / name).exists()]
        if "syscall" in missing:
            return Availability("off", "this kernel has no /proc/PID/syscall")
        if missing:
            return Availability("partial", "this kernel has no /proc/PID/wchan")
        return self._of_yama()

    def _of_yama(self) -> Availability:
        scope = read_optional_line(self._context.proc_root / "sys/kernel/yama/ptrace_scope")
        if scope in (None, "0") or os.geteuid() == 0 and scope != "3":
            return Availability("on")
        if scope == "1":
            return Availability("partial", "Yama mode 1: only descendants of the sampler are seen")
        return Availability("off", f"Yama mode {scope} closes /proc/PID/syscall to us")

    def sample(self, mono_ns: int) -> None:
        """One pass over ranks and workers, or over the other processes while there is no rank."""
        members = self._context.members()
        if members is not self._members:
            self._take_members(members)
        self._remembered.now_ns = mono_ns
        self.passes += 1
        for rank_pid in self.rounds.due(list(self._crews)):
            phase, loader = "none", None
            if rank_pid is not None:
                phase, loader = self._context.phase_of(rank_pid)
            for crew in self._crews[rank_pid]:
                group = self._tally.group((rank_pid, crew.rank, crew.role, phase, loader))
                group.add(self._look_at(crew, phase, mono_ns))

    def _look_at(self, crew: _ProbedCrew, phase: str, mono_ns: int) -> Look:
        """A look at the crew, or the held one while that stands."""
        if phase != _HELD_PHASE:
            return self._look_now(crew.probes, phase, crew.role == "rank", mono_ns)
        if crew.held is not None and mono_ns - crew.looked_ns < self.hold_ns:
            return crew.held
        is_rank = crew.role == "rank"
        crew.held = self._look_now(crew.probes, "" if is_rank else phase, is_rank, mono_ns)
        crew.looked_ns = mono_ns
        return crew.held

    def _look_now(
        self, probes: list[ProcessProbe], phase: str, is_rank: bool, mono_ns: int
    ) -> Look:
        """One look at each process; `phase` "" = main threads only. The hottest loop there is."""
        classes: list[str] = []
        storage: list[tuple[Reading, Target]] = []
        classifier = self._classifier
        for probe in probes:
            main = probe.main
            reading = main.look(classifier)
            wait_class = reading.wait_class
            if (
                phase
                and wait_class in SAYS_NOTHING
                and (
                    mono_ns >= probe.quiet_until_ns
                    or probe.helpers
                    or (probe.wakes_with_main and not main.same_looks)
                )
            ):
                reading = self._ask_others(probe, reading, phase, is_rank, mono_ns)
                wait_class = reading.wait_class
            if wait_class == "storage":
                pid = reading.pid or probe.pid
                storage.append((reading, self._targets.find(pid, reading, mono_ns)))
            elif wait_class in COUNTED:  # the others are gone
                classes.append(wait_class)
                if reading is REFUSED:
                    self._note_refused(probe)
        return Look(classes, storage)

    def _note_refused(self, probe: ProcessProbe) -> None:
        self._refused += 1
        if len(self._refused_processes) < _MOST_REFUSED_KEPT:
            self._refused_processes.add((probe.pid, probe.starttime))

    def _ask_others(
        self, probe: ProcessProbe, main: Reading, phase: str, is_rank: bool, mono_ns: int
    ) -> Reading:
        """Who else in the process, or which helper of it, tells more than its main thread."""
        others = list(probe.look_at_others(self._classifier, mono_ns, self.rounds.turns))
        for helper in probe.helpers:
            others.append(helper.main.look(self._classifier)._replace(pid=helper.pid))
        return most_telling(main, others, phase, is_rank)

    def collect(self, tick: Tick) -> list[Row]:
        """Rows of all passes since the last call."""
        return self._tally.rows(tick, tick.interval_ns or 0)

    def facts(self) -> dict[str, object]:
        """Mounts seen in storage waits; how many samples were refused."""
        facts: dict[str, object] = {
            "mounts_waited_for": dict(self._mounts_seen),
            "passes": self.passes,
            "samples_refused": self._refused,
            "processes_refused": len(self._refused_processes),
        }
        if self._refused:
            facts["refused_reason"] = (
                "/proc/PID/syscall of these processes is closed to this user: "
                "run as root, or start the job below `slurm-io run`"
            )
        return facts

    def mounts_waited_for(self) -> list[str]:
        """Mount points that held storage waits so far."""
        return list(self._mounts_seen)

    def close(self) -> None:
        """Close all files."""
        self._forget_all_but(())

    def _take_members(self, members: Sequence[Member]) -> None:
        self._members = members
        self._forget_all_but(members)
        self._crews = {}
        for pid, rank, role, crew in _crews(members):
            probed = _ProbedCrew(rank, role, [self._probe(member) for member in crew])
            self._crews.setdefault(pid, []).append(probed)
        for probe in self._probes.values():
            probe.helpers = ()
        for owner, helpers in _helpers_by_owner(members).items():
            if owner in self._probes:
                self._probes[owner].helpers = [self._probe(helper) for helper in helpers]

    def _probe(self, member: Member) -> ProcessProbe:
        probe = self._probes.get(member.pid)
        if probe is None:
            keeps = len(self._probes) < self._most_kept
            root = os.fspath(self._context.proc_root)
            probe = ProcessProbe(root, member.pid, member.starttime, keeps)
            self._probes[member.pid] = probe
        return probe

    def _forget_all_but(self, members: Sequence[Member]) -> None:
        living = {member.pid: member.starttime for member in members}
        gone = {p for p, probe in self._probes.items() if living.get(p) != probe.starttime}
        for pid in gone:
            self._probes.pop(pid).close()
        if gone:
            self._targets.forget(gone)


def _helpers_by_owner(members: Sequence[Member]) -> dict[int, list[Member]]:
    helpers: dict[int, list[Member]] = {}
    for member in members:
        if member.helper_of is not None:
            helpers.setdefault(member.helper_of, []).append(member)
    return helpers


def _crews(members: Sequence[Member]) -> list[Crew]:
    """Ranks one by one, their workers together; the outsiders only while there is no rank."""
    workers: dict[tuple[int | None, int | None], list[Member]] = {}
    crews: list[Crew] = []
    for member in members:
        if member.role == "rank":
            crews.append((member.pid, member.rank, "rank", [member]))
        elif member.role == "worker" and member.helper_of is None:
            workers.setdefault((member.rank_pid, member.rank), []).append(member)
    crews += [(pid, rank, "worker", crew) for (pid, rank), crew in workers.items()]
    if crews:
        return crews
    outsiders = [member for member in members if member.helper_of is None][:_MOST_OUTSIDERS]
    return [(None, None, "other", outsiders)] if outsiders else []
