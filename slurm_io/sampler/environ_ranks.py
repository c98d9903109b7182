"""Which processes are ranks where no hook greets: told by the environment their launcher gave them.

torchrun sets RANK, mpirun OMPI_COMM_WORLD_RANK or PMI_RANK, srun SLURM_PROCID; everything below a
rank inherits them. A rank is the topmost Python of those that name one number. Not meant are
launchers (a Python that sits in wait4(2) for another one, or that numbers those below it) and this
project's own processes. A batch script bears SLURM_PROCID=0 like a task, so it
counts only where no step's task does, and SLURM_PROCID at all only where no launcher's variable
does. A program that forked its ranks itself (mp.spawn) set their numbers in memory, where nobody
sees them from outside: it stands for all of them.

Where nothing names a number, as for one process tree outside Slurm, the topmost Python is the rank,
its number unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from slurm_io.collectors.waits.wchan import place_of
from slurm_io.errors import HostError
from slurm_io.host.read import read_bytes
from slurm_io.sampler.processes import Process

_BY_LAUNCHER = (b"RANK", b"OMPI_COMM_WORLD_RANK", b"PMI_RANK")
_BY_SLURM = b"SLURM_PROCID"
_LOCAL = (b"LOCAL_RANK", b"OMPI_COMM_WORLD_LOCAL_RANK", b"MPI_LOCALRANKID", b"SLURM_LOCALID")
_WORLD = (b"WORLD_SIZE", b"OMPI_COMM_WORLD_SIZE", b"PMI_SIZE", b"SLURM_NTASKS")
_ENVIRON_LIMIT_BYTES = 4 * 1024 * 1024
_CMDLINE_LIMIT_BYTES = 4 * 1024 * 1024
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*t?d?(?:-dbg)?(?: \(deleted\))?")
_OUR_MODULE = re.compile(rb"slurm_io(?:\.[a-z_.]+)?")
_MOST_REMEMBERED = 4096
_REFRESHES_BETWEEN = 5
_LOOKS_OF_A_LAUNCHER = 3  # a rank may wait for a child for once, a launcher does nothing else

LAUNCHER, STEP, BATCH = 3, 2, 1
"""How far a number is to be trusted: a launcher's own, a task's, a batch script's."""


@dataclass(frozen=True)
class Told:
    """What one process's environment says. `trust` 0: no number."""

    trust: int = 0
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None


def told_by(environ: Mapping[bytes, bytes]) -> Told:
    """The rank an environment names; numbers that are none count as absent."""
    local, world = _first(environ, _LOCAL), _first(environ, _WORLD)
    rank = _first(environ, _BY_LAUNCHER)
    if rank is not None:
        return Told(LAUNCHER, rank, local, world)
    rank = _number(environ.get(_BY_SLURM))
    if rank is None:
        return Told()
    return Told(STEP if b"SLURM_STEP_ID" in environ else BATCH, rank, local, world)


class EnvironRanks:
    """Ranks among the members. `may_be_unnumbered`: without any number the topmost Python counts.

    A process that was a rank stays one as long as it does more than wait for a child.
    """

    def __init__(self, proc_root: Path, may_be_unnumbered: bool) -> None:
        self._root = proc_root
        self._may_be_unnumbered = may_be_unnumbered
        self._known: dict[tuple[int, int, str, int], tuple[Told, bool]] = {}
        self._settled: set[tuple[int, int]] = set()
        self._waited: dict[tuple[int, int], int] = {}
        self._facts: dict[tuple[int, int], dict[str, Any]] = {}
        self._ranks: dict[int, int | None] = {}
        self._since_look = _REFRESHES_BETWEEN

    def add_to(
        self, hooked: Mapping[int, int | None], members: Mapping[int, Process], changed: bool
    ) -> dict[int, int | None]:
        """`hooked` (pid -> rank) and those found here; the hook's word wins on its processes.

        `changed`: whether the members changed since the last call.
        """
        self._since_look += 1
        if changed or self._since_look >= _REFRESHES_BETWEEN:
            self._since_look = 0
            self._look(members)
        related = {
            pid
            for pid in self._ranks
            if any(_is_above(pid, other, members) or _is_above(other, pid, members)
                   for other in hooked)
        }  # fmt: skip
        found = {pid: rank for pid, rank in self._ranks.items() if pid not in related}
        return {**found, **hooked}

    def facts(self, hooked: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
        """Entries of ``ranks`` in meta.json; `hooked` (pid, starttime) have theirs already."""
        known = set(hooked)
        return [facts for key, facts in self._facts.items() if key not in known]

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
        if most == 0 and not self._may_be_unnumbered:
            found = []
        self._ranks = {}
        for process in found:
            told = self._told(process)
            if told.trust == most:
                self._ranks[process.pid] = told.rank
                self._remember(process, told)
        for pid, starttime in by_time & self._facts.keys():
            if pid not in self._ranks:  # on a closer look a launcher, or of the batch script
                del self._facts[pid, starttime]

    def _remember(self, process: Process, told: Told) -> None:
        key = (process.pid, process.starttime)
        self._settled.add(key)
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
        raw = self._read(pid, "environ", _ENVIRON_LIMIT_BYTES)
        pairs = (entry.partition(b"=") for entry in raw.split(b"\0"))
        return told_by({name: value for name, sep, value in pairs if sep})

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
        waiting, seen = list(tops), set[int]()
        while waiting:
            process = waiting.pop()
            if process.pid in seen:
                continue
            seen.add(process.pid)
            below = self._below(process)
            if self._is_rank(process, below):
                found.append(process)
            else:
                waiting += self._children.get(process.pid, [])
        return found

    def _is_rank(self, process: Process, below: list[Process]) -> bool:
        own = self._told(process)
        if any(_renumbers(own, self._told(other)) for other in below):
            return False
        return self._stands(process, any(self._stands(other, False) for other in below))

    def _below(self, process: Process) -> list[Process]:
        found: list[Process] = []
        waiting, seen = list(self._children.get(process.pid, [])), {process.pid}
        while waiting:
            child = waiting.pop()
            if child.pid not in seen:
                seen.add(child.pid)
                found.append(child)
                waiting += self._children.get(child.pid, [])
        return found


def _renumbers(above: Told, below: Told) -> bool:
    """Whether a launcher stands between two processes, or is the upper one."""
    return below.trust > above.trust or (
        below.trust == above.trust == LAUNCHER and below.rank != above.rank
    )


def _is_ours(cmdline: bytes) -> bool:
    """``slurm-io …`` or ``python -m slurm_io…``: the wrapper of a run, another attach."""
    words = cmdline.split(b"\0")[:8]
    as_module = any(
        option == b"-m" and _OUR_MODULE.fullmatch(name) for option, name in pairwise(words)
    )
    return as_module or any(os.path.basename(word) == b"slurm-io" for word in words[:3])


def _is_above(pid: int, other: int, members: Mapping[int, Process]) -> bool:
    """Whether `pid` is `other` or one of its ancestors among the members."""
    seen: set[int] = set()
    while other not in seen:
        if other == pid:
            return True
        seen.add(other)
        process = members.get(other)
        if process is None:
            return False
        other = process.ppid
    return False


def _first(environ: Mapping[bytes, bytes], names: Iterable[bytes]) -> int | None:
    return next((n for name in names if (n := _number(environ.get(name))) is not None), None)


def _number(text: bytes | None) -> int | None:
    return int(text) if text is not None and len(text) < 8 and text.isdigit() else None
