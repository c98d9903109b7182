"""Who is a rank, who is a loader worker, who only helps: pure judgement over the process tree.

A rank is a process with a ring that has timed a batch. A worker is a process of the rank's own
interpreter below it: a child, or a grandchild through a forkserver. Whatever else is below (the
forkserver itself, multiprocessing's resource tracker, `sh -c cat` behind a pipe) helps the nearest
rank or worker above and is not counted by itself: a tracker that reads its pipe for ever would
water down what the workers wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from slurm_io.collectors.base import Member
from slurm_io.sampler.processes import Process

_DEEPEST = 64

Program = Literal["forkserver", "tracker", "program"]


@dataclass(frozen=True, slots=True)
class Image:
    """What a process runs. `exe` is None when it cannot be read."""

    exe: str | None
    program: Program


ImageOf = Callable[[Process], Image]


def program_of(cmdline: bytes) -> Program:
    """Which part of Python's multiprocessing a command line is."""
    if b"multiprocessing.resource_tracker" in cmdline:
        return "tracker"
    return "forkserver" if b"multiprocessing.forkserver" in cmdline else "program"


class RoleJudge:
    """Gives every member its role. Verdicts stay with a process that lost its parents."""

    def __init__(self, image_of: ImageOf) -> None:
        self._image_of = image_of
        self._settled: dict[tuple[int, int], Member] = {}

    def members(
        self, processes: Mapping[int, Process], ranks: Mapping[int, int | None]
    ) -> list[Member]:
        """One Member for each process; `ranks` maps the ranks' pids to their global rank."""
        found = [self._member(process, processes, ranks) for process in processes.values()]
        self._settled = {(m.pid, m.starttime): m for m in found if m.role != "other" or m.rank_pid}
        return found

    def _member(
        self, process: Process, processes: Mapping[int, Process], ranks: Mapping[int, int | None]
    ) -> Member:
        pid, starttime, ppid, comm = process.pid, process.starttime, process.ppid, process.comm
        if pid in ranks:
            return Member(pid, starttime, ppid, comm, ranks[pid], "rank", pid)
        above = _ancestors(process, processes)
        rank_pid = next((p.pid for p in above if p.pid in ranks), None)
        if rank_pid is None:
            old = self._settled.get((pid, starttime))
            if old is not None:
                return Member(
                    pid, starttime, ppid, comm, old.rank, _orphan_role(old), old.rank_pid,
                    old.helper_of,
                )  # fmt: skip
            return Member(pid, starttime, ppid, comm, None, "other")
        below_rank = above[: [p.pid for p in above].index(rank_pid)]
        rank = ranks[rank_pid]
        helped = self._helped(process, below_rank, processes[rank_pid])
        if helped is None:
            return Member(pid, starttime, ppid, comm, rank, "worker", rank_pid)
        return Member(pid, starttime, ppid, comm, rank, "other", rank_pid, helped)

    def _helped(self, process: Process, between: list[Process], rank: Process) -> int | None:
        """Pid of the rank or worker this process helps; None when it is a worker itself."""
        for ancestor in reversed(between):
            if self._is_worker(ancestor, rank):
                return ancestor.pid
        return None if self._is_worker(process, rank) else rank.pid

    def _is_worker(self, process: Process, rank: Process) -> bool:
        """Ancestors nearer to the rank are settled first, so only forkservers stand between."""
        image = self._image_of(process)
        own = self._image_of(rank)
        if image.exe is None or own.exe is None:
            same = process.comm == rank.comm or process.comm.startswith(("python", "pt_data"))
        else:
            same = image.exe == own.exe
        if image.program == "tracker" or not same:
            return False
        # The server's children keep its command line: only the one the rank started is the server.
        return image.program != "forkserver" or process.ppid != rank.pid


def _ancestors(process: Process, processes: Mapping[int, Process]) -> list[Process]:
    """Members above, nearest first."""
    found: list[Process] = []
    above = processes.get(process.ppid)
    while above is not None and len(found) < _DEEPEST and above.pid != process.pid:
        found.append(above)
        above = processes.get(above.ppid)
    return found


def _orphan_role(old: Member) -> Literal["worker", "other"]:
    """A rank without its ring any more is no rank."""
    return "worker" if old.role == "worker" else "other"
