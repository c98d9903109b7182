"""How many CPUs the job's ranks may run on: what Slurm, a cpuset or numactl left them.

``Cpus_allowed_list`` of /proc/PID/status (proc(5)), once for each rank, when it is first seen as
one. A program that binds itself later is not followed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from slurm_io.collectors.base import Member
from slurm_io.host.read import read_optional_text

_LABEL = "\nCpus_allowed_list:"
_MOST_BYTES = 65536
_MOST_CPUS = 1 << 16
_MOST_RANKS = 1024


class AllowedCpus:
    """:meth:`note` looks at ranks that are new; :meth:`to_dict` goes into meta.json."""

    def __init__(self, proc_root: Path) -> None:
        self._root = proc_root
        self._known: set[tuple[int, int]] = set()
        self._all: set[int] = set()
        self._fewest: int | None = None

    def note(self, members: Iterable[Member]) -> None:
        """Read the masks of ranks not looked at before."""
        for member in members:
            key = (member.pid, member.starttime)
            if member.role != "rank" or key in self._known or len(self._known) >= _MOST_RANKS:
                continue
            self._known.add(key)
            cpus = cpus_of_status(self._text(member.pid))
            if cpus:
                self._all |= cpus
                self._fewest = min(len(cpus), self._fewest or len(cpus))

    def to_dict(self) -> dict[str, Any] | None:
        """``{node, rank}``: CPUs that all ranks of this node together may run on, and the one with
        fewest. None when no rank's could be read."""
        if self._fewest is None:
            return None
        return {"node": len(self._all), "rank": self._fewest}

    def _text(self, pid: int) -> str:
        return read_optional_text(self._root / str(pid) / "status", _MOST_BYTES) or ""


def cpus_of_status(text: str) -> frozenset[int]:
    """CPU numbers of the ``Cpus_allowed_list`` line; empty when there is none or it is damaged."""
    start = text.find(_LABEL)
    if start < 0:
        return frozenset()
    return _numbers(text[start + len(_LABEL) :].split("\n", 1)[0].strip())


def _numbers(text: str) -> frozenset[int]:
    """``0-3,8`` -> {0, 1, 2, 3, 8}."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            return frozenset()
        low, high = int(first), int(last or first)
        if high >= _MOST_CPUS or low > high:
            return frozenset()
        found.update(range(low, high + 1))
    return frozenset(found)
