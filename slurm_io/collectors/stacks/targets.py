"""Which processes a window is worth: ranks, and now and then a loader worker of one.

Who is a rank the sampler knows: from the hook, else from the environment of the processes.
"""

from __future__ import annotations

from collections.abc import Sequence

from slurm_io.collectors.base import Member
from slurm_io.records import dataclass

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

    def __init__(self) -> None:
        self._members: Sequence[Member] | None = None
        self._ranks: list[Target] = []
        self._workers: list[Target] = []
        self._turn = 0

    def update(self, members: Sequence[Member]) -> None:
        """Take over the job's processes as they are now."""
        if members is self._members:
            return
        self._members = members
        self._ranks = [_target(one, one.rank) for one in members if one.role == "rank"]
        self._workers = [_target(one, one.rank) for one in members if one.role == "worker"]

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


def _target(member: Member, rank: int | None) -> Target:
    return Target(member.pid, member.starttime, rank, member.role)
