"""Counts the job's processes that cannot be looked at, so that the report can say so."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from slurm_io.sampler.processes import Zombie

_LINGERS_FROM = 2
_MOST_KEPT = 4096


class Unseen:
    """:meth:`look` at every refresh; each process is counted once."""

    def __init__(self) -> None:
        self._hidden: set[int] = set()
        self._missing_before: frozenset[int] = frozenset()
        self._zombies: set[tuple[int, int]] = set()
        self._ended: set[tuple[int, int]] = set()
        self._most_foreign = 0
        self._since_s: float | None = None
        self._had_processes = False
        self._empty_s = 0.0

    def look(
        self, missing: frozenset[int], foreign: int, zombies: Mapping[int, Zombie],
        members: Collection[int],
    ) -> None:  # fmt: skip
        """`missing`: pids of the control group that are not in the process table; a process that
        is just being born is one for a moment, one that is hidden at every look."""
        still = missing & self._missing_before - zombies.keys()
        self._missing_before = missing
        self._hidden |= set(list(still)[: _MOST_KEPT - len(self._hidden)])
        self._most_foreign = max(self._most_foreign, foreign)
        for pid, zombie in zombies.items():
            if zombie.last_seen - zombie.first_seen >= _LINGERS_FROM:
                key = (pid, zombie.starttime)
                if (key in self._ended or zombie.ppid in members) and len(
                    self._zombies
                ) < _MOST_KEPT:
                    self._zombies.add(key)

    def ended(self, pid: int, starttime: int) -> None:
        """A member that has just turned into a zombie."""
        if len(self._ended) < _MOST_KEPT:
            self._ended.add((pid, starttime))

    def note_emptiness(self, now_s: float, has_group: bool, has_processes: bool) -> None:
        """Add up the time in which the job's group held nothing, from its first process on."""
        since_s, self._since_s = self._since_s, now_s
        self._had_processes = self._had_processes or has_processes
        if since_s is not None and has_group and self._had_processes and not has_processes:
            self._empty_s += now_s - since_s

    def to_dict(self) -> dict[str, Any]:
        """As meta.json holds it."""
        return {
            "hidden": len(self._hidden) + self._most_foreign,
            "zombies": len(self._zombies),
            "group_empty_s": round(self._empty_s, 1),
        }
