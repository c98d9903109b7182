"""Which processes a window is worth: ranks, and now and then a loader worker of one.

With the hook the ranks are known. Without it a rank is a Python process whose environment names a
rank and whose parent's does not, or, where nobody names one, a Python process without a Python
parent: a launcher such as torchrun has children that name theirs and is none itself.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from slurm_io.collectors.base import Member
from slurm_io.errors import HostError
from slurm_io.host.read import read_bytes
from slurm_io.records import dataclass

_RANK_NAMES = (b"RANK", b"SLURM_PROCID", b"PMI_RANK", b"OMPI_COMM_WORLD_RANK")
_ENVIRON_BYTES = 256 * 1024
_MOST_OUTSIDERS = 256
_RANKS_A_WORKER = 2  # so many windows of ranks, then one of a worker


@dataclass(frozen=True)
class Target:
    """One process to record."""

    pid: int
    starttime: int
    rank: int | None
    role: str


class Rotation:
    """Whose turn it is. Everybody in turn, workers at a third of the turns."""

    def __init__(self, proc_root: str) -> None:
        self._proc_root = proc_root
        self._members: Sequence[Member] | None = None
        self._ranks: list[Target] = []
        self._workers: list[Target] = []
        self._turn = 0
        self._environments: dict[tuple[int, int], int | None] = {}

    def update(self, members: Sequence[Member]) -> None:
        """Take over the job's processes as they are now."""
        if members is self._members:
            return
        self._members = members
        self._ranks = [_target(one, one.rank) for one in members if one.role == "rank"]
        self._workers = [_target(one, one.rank) for one in members if one.role == "worker"]
        if not self._ranks:
            self._ranks, self._workers = self._guess(members)

    def next(self, skip: frozenset[tuple[int, int]] = frozenset()) -> Target | None:
        """The next one that is not in `skip`; None when there is none."""
        ranks = [one for one in self._ranks if (one.pid, one.starttime) not in skip]
        workers = [one for one in self._workers if (one.pid, one.starttime) not in skip]
        self._turn += 1
        turn = self._turn - 1
        if workers and (not ranks or turn % (_RANKS_A_WORKER + 1) == _RANKS_A_WORKER):
            return workers[turn // (_RANKS_A_WORKER + 1) % len(workers)]
        worker_turns = turn // (_RANKS_A_WORKER + 1) if workers else 0
        return ranks[(turn - worker_turns) % len(ranks)] if ranks else None

    def _guess(self, members: Sequence[Member]) -> tuple[list[Target], list[Target]]:
        pythons = [one for one in members if self._is_python(one)][:_MOST_OUTSIDERS]
        living = {(one.pid, one.starttime) for one in pythons}
        self._environments = {k: v for k, v in self._environments.items() if k in living}
        ranks = {one.pid: self._rank_of(one) for one in pythons}
        named = [one for one in pythons if ranks[one.pid] is not None]
        # Workers inherit their rank's environment, the ranks of torchrun have one of their own.
        tops = [one for one in named if ranks.get(one.ppid) != ranks[one.pid]]
        launchers = {one.ppid for one in tops}
        tops = [one for one in tops if one.pid not in launchers]
        if not tops:
            pids = set(ranks)
            tops = [one for one in pythons if one.ppid not in pids]
        top_pids = {one.pid for one in tops}
        workers = [one for one in pythons if one.ppid in top_pids and one.pid not in top_pids]
        return (
            [Target(one.pid, one.starttime, ranks[one.pid], "rank") for one in tops],
            [Target(one.pid, one.starttime, ranks[one.ppid], "worker") for one in workers],
        )

    def _is_python(self, member: Member) -> bool:
        if member.comm.startswith(("python", "pt_data_worker", "pt_main_thread")):
            return True
        try:
            exe = os.readlink(f"{self._proc_root}/{member.pid}/exe")
        except OSError:
            return False
        return os.path.basename(exe).startswith("python")

    def _rank_of(self, member: Member) -> int | None:
        key = (member.pid, member.starttime)
        if key not in self._environments:
            try:
                environ = read_bytes(f"{self._proc_root}/{member.pid}/environ", _ENVIRON_BYTES)
            except HostError:
                environ = b""
            self._environments[key] = rank_in(environ)
        return self._environments[key]


def rank_in(environ: bytes) -> int | None:
    """The rank an environment names, the framework's own word before Slurm's."""
    found: dict[bytes, bytes] = {}
    for word in environ.split(b"\0"):
        name, _, value = word.partition(b"=")
        if name in _RANK_NAMES:
            found[name] = value
    for name in _RANK_NAMES:
        value = found.get(name, b"")
        if value.isdigit() and len(value) < 8:
            return int(value)
    return None


def _target(member: Member, rank: int | None) -> Target:
    return Target(member.pid, member.starttime, rank, member.role)
