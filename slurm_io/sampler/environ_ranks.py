"""Which processes are ranks where no hook greets: told by the environment their launcher gave them.

torchrun sets RANK, mpirun OMPI_COMM_WORLD_RANK or PMI_RANK, srun SLURM_PROCID; everything below a
rank inherits them. A rank is the topmost Python of those that name one number. Not meant are
launchers (a Python that sits in wait4(2) for another one, or that numbers those below it) and this
project's own processes. A batch script bears SLURM_PROCID=0 like a task, so it
counts only where no step's task does, and SLURM_PROCID at all only where no launcher's variable
does. A program that forked its ranks itself (mp.spawn) set their numbers in memory, where nobody
sees them from outside: it stands for all of them.

Where nothing names a number, as for one process tree outside Slurm or a container with a clean
environment, the topmost Python is the rank, its number unknown.

The hook's word wins. Its processes are what it says they are, a process above or below one of them
is none, a number that one of them bears is taken, and beside them only launchers and tasks tell of
further ranks: the Python that prepares the data before a hooked training is not one of its ranks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from slurm_io.collectors.waits.wchan import place_of
from slurm_io.errors import HostError
from slurm_io.host.read import read_bytes
from slurm_io.sampler.environ_numbers import LAUNCHER, NUMBERED_BY, STEP, Told, told_by, words_in
from slurm_io.sampler.processes import Process

_ENVIRON_LIMIT_BYTES = 4 * 1024 * 1024
_CMDLINE_LIMIT_BYTES = 4 * 1024 * 1024
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*t?d?(?:-dbg)?(?: \(deleted\))?")
_OUR_MODULE = re.compile(rb"slurm_io(?:\.[a-z_.]+)?")
_MOST_REMEMBERED = 4096
_REFRESHES_BETWEEN = 5
_LOOKS_OF_A_LAUNCHER = 3  # a rank may wait for a child for once, a launcher does nothing else


class EnvironRanks:
    """Ranks among the members.

    A process that was a rank stays one as long as it does more than wait for a child.
    """

    def __init__(self, proc_root: Path) -> None:
        self._root = proc_root
        self._known: dict[tuple[int, int, str, int], tuple[Told, bool]] = {}
        self._settled: set[tuple[int, int]] = set()
        self._waited: dict[tuple[int, int], int] = {}
        self._facts: dict[tuple[int, int], dict[str, Any]] = {}
        self._trust: dict[tuple[int, int], int] = {}
        self._ranks: dict[int, int | None] = {}
        self._since_look = _REFRESHES_BETWEEN
        self._all_hooked = False
        self._has_changed = False

    def add_to(
        self, hooked: Mapping[int, int | None], members: Mapping[int, Process], changed: bool
    ) -> dict[int, int | None]:
        """`hooked` (pid -> rank) and those found here; the hook's word wins on its processes.

        `changed`: whether the members changed since the last call.
        """
        self._since_look += 1
        self._has_changed |= changed
        is_time = self._since_look >= _REFRESHES_BETWEEN
        # Hooked jobs do not pay for the many short-lived processes that some loaders start.
        if is_time and not self._all_hooked or self._has_changed and (is_time or not hooked):
            self._look(members)
            self._since_look, self._has_changed = 0, False  # a look left behind is made again
        related = _related(self._ranks, hooked, members)
        for pid in related - hooked.keys():
            self._facts.pop((pid, members[pid].starttime), None)
        found = {
            pid: rank
            for pid, rank in self._ranks.items()
            if pid not in related and pid in members
        }  # fmt: skip
        self._all_hooked = bool(hooked) and not found
        if hooked:
            taken = set(hooked.values())
            found = {
                pid: rank
                for pid, rank in found.items()
                if rank not in taken and self._trust_in(members[pid]) >= STEP
            }
        return {**found, **hooked}

    def facts(
        self, hooked: Iterable[tuple[int, int]], taken: Collection[int | None] = ()
    ) -> list[dict[str, Any]]:
        """Entries of ``ranks`` in meta.json; `hooked` (pid, starttime) have theirs already, with
        the numbers `taken`."""
        known = set(hooked)
        if not known:
            return list(self._facts.values())
        return [
            facts
            for key, facts in self._facts.items()
            if key not in known and self._trust[key] >= STEP and facts["rank"] not in taken
        ]

    def _trust_in(self, process: Process) -> int:
        return self._trust.get((process.pid, process.starttime), 0)

    def _look(self, members: Mapping[int, Process]) -> None:
        children: dict[int, list[Process]] = {}
        for process in members.values():
            children.setdefault(process.ppid, []).append(process)
        living = {p.image for p in members.values()}
        self._known = {key: value for key, value in self._known.items() if key in living}
        by_time = {key[:2] for key in living}
        self._settled &= by_time
        self._waited = {key: looks for key, looks in self._waited.items() if key in by_time}
        found = _Search(children, self._told, self._stands_for_a_rank).run(members)
        most = max((self._told(p).trust for p in found), default=0)
        self._ranks = {}
        for process in found:
            told = self._told(process)
            if told.trust == most:
                self._ranks[process.pid] = told.rank
                self._remember(process, told)
        for pid, starttime in by_time & self._facts.keys():
            if pid not in self._ranks:  # on a closer look a launcher, or of the batch script
                del self._facts[pid, starttime]
        kept = by_time | self._facts.keys()
        self._trust = {key: trust for key, trust in self._trust.items() if key in kept}

    def _remember(self, process: Process, told: Told) -> None:
        key = (process.pid, process.starttime)
        self._settled.add(key)
        self._trust[key] = told.trust
        if key not in self._facts and len(self._facts) < _MOST_REMEMBERED:
            self._facts[key] = {
                "rank": told.rank,
                "pid": process.pid,
                "starttime": process.starttime,
                "local_rank": told.local_rank,
                "world_size": told.world_size,
                "python": None,
                "torch": None,
                "first_ts_ns": None,
                "last_ts_ns": None,
                "told_by": "environ",
                "numbered_by": NUMBERED_BY[told.trust],
            }

    def _told(self, process: Process) -> Told:
        return self._image(process)[0]

    def _stands_for_a_rank(self, process: Process, has_python_below: bool) -> bool:
        if not self._image(process)[1]:
            return False
        return not has_python_below or not self._only_waits(process)

    def _only_waits(self, process: Process) -> bool:
        """Whether it is a launcher that waits for the Python it started."""
        key = (process.pid, process.starttime)
        waits = self._waits_for_a_child(process.pid)
        looks = self._waited[key] = self._waited.get(key, 0) + 1 if waits else 0
        return looks >= (_LOOKS_OF_A_LAUNCHER if key in self._settled else 1)

    def _image(self, process: Process) -> tuple[Told, bool]:
        """(what its environment says, whether it is a Python of the user's)."""
        key = process.image
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = (self._read_told(process.pid), self._is_python(process))
        return known

    def _read_told(self, pid: int) -> Told:
        return told_by(words_in(self._read(pid, "environ", _ENVIRON_LIMIT_BYTES)))

    def _is_python(self, process: Process) -> bool:
        try:
            name = os.path.basename(os.readlink(self._root / str(process.pid) / "exe"))
        except OSError:
            name = process.comm
        return bool(_PYTHON.fullmatch(name)) and not _is_ours(
            self._read(process.pid, "cmdline", _CMDLINE_LIMIT_BYTES)
        )

    def _waits_for_a_child(self, pid: int) -> bool:
        name = self._read(pid, "wchan", 256).decode("ascii", "replace").strip("\0\n ")
        return place_of(name) == "child"

    def _read(self, pid: int, name: str, limit_bytes: int) -> bytes:
        try:
            return read_bytes(self._root / str(pid) / name, limit_bytes)
        except HostError:
            return b""


class _Search:
    """One walk over the members' tree: the topmost that stand for a rank."""

    def __init__(
        self,
        children: Mapping[int, list[Process]],
        told: Callable[[Process], Told],
        stands: Callable[[Process, bool], bool],
    ) -> None:
        self._children = children
        self._told = told
        self._stands = stands

    def run(self, members: Mapping[int, Process]) -> list[Process]:
        """From the members whose parent is none, down."""
        tops = [p for p in members.values() if p.ppid not in members or p.ppid == p.pid]
        found: list[Process] = []
        below = self._all_below(tops)
        waiting, seen = list(tops), set[int]()
        while waiting:
            process = waiting.pop()
            if process.pid in seen:
                continue
            seen.add(process.pid)
            if self._is_rank(process, below[process.pid]):
                found.append(process)
            else:
                waiting += self._children.get(process.pid, [])
        return found

    def _is_rank(self, process: Process, below: _Below) -> bool:
        if below.renumbers(self._told(process)):
            return False
        return self._stands(process, below.has_python)

    def _all_below(self, tops: list[Process]) -> dict[int, _Below]:
        """Summed up from the leaves, in one pass: a job can nest its processes by the thousand."""
        order: list[Process] = []
        found: dict[int, _Below] = {}
        waiting = list(tops)
        while waiting:
            process = waiting.pop()
            if process.pid not in found:
                found[process.pid] = _Below()
                order.append(process)
                waiting += self._children.get(process.pid, [])
        for process in reversed(order):  # children stand behind their parents
            above = found.get(process.ppid)
            if above is not None and process.ppid != process.pid:
                above.take(self._told(process), self._stands(process, False))
                above.add(found[process.pid])
        return found


@dataclass
class _Below:
    """What is known of all processes below one. `numbers`: two different ones at most, those that
    launchers gave."""

    trust: int = 0
    numbers: frozenset[int | None] = frozenset()
    has_python: bool = False

    def take(self, told: Told, is_python: bool) -> None:
        """One process more."""
        numbers = frozenset((told.rank,)) if told.trust == LAUNCHER else frozenset[int | None]()
        self.add(_Below(told.trust, numbers, is_python))

    def add(self, other: _Below) -> None:
        """All below another one."""
        self.trust = max(self.trust, other.trust)
        if len(self.numbers) < 2:
            self.numbers = frozenset(list(self.numbers | other.numbers)[:2])
        self.has_python = self.has_python or other.has_python

    def renumbers(self, above: Told) -> bool:
        """Whether a launcher stands between them and the process above, or is that process."""
        return self.trust > above.trust or (
            above.trust == LAUNCHER and bool(self.numbers - {above.rank})
        )


def _is_ours(cmdline: bytes) -> bool:
    """``slurm-io …`` or ``python -m slurm_io…``: the wrapper of a run, another attach."""
    words = cmdline.split(b"\0")[:8]
    as_module = any(
        option == b"-m" and _OUR_MODULE.fullmatch(name) for option, name in pairwise(words)
    )
    return as_module or any(os.path.basename(word) == b"slurm-io" for word in words[:3])


def _related(
    pids: Iterable[int], hooked: Iterable[int], members: Mapping[int, Process]
) -> set[int]:
    """Those of `pids` that are hooked, or stand above or below one that is."""
    hooked = set(hooked)
    above_hooked = {above for pid in hooked for above in _line(pid, members)}
    return {
        pid for pid in pids
        if pid in above_hooked or not hooked.isdisjoint(_line(pid, members))
    }  # fmt: skip


def _line(pid: int, members: Mapping[int, Process]) -> set[int]:
    """A process and its ancestors, as far as they are members."""
    seen: set[int] = set()
    while pid not in seen and pid in members:
        seen.add(pid)
        pid = members[pid].ppid
    return seen
