"""How long a process's main thread ran, and was ready and waited for a CPU: /proc/PID/schedstat.

Three numbers: ns on a CPU, ns ready and waiting for one, turns on a CPU::

    4210377 81034 57

Samples say of a thread only that it does not sleep; this tells whether it ran or queued. A kernel
without CONFIG_SCHED_INFO shows zeros or no such file.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

from slurm_io.host.kept import KeptFile

_SHORTEST_S, _LONGEST_S, _GROWTH = 3.0, 60.0, 1.4
_NS = 1_000_000_000
_LARGEST = 2**63 - 1


class RunTimes(NamedTuple):
    """Since the thread began, ns."""

    ran_ns: int
    queued_ns: int


class RunShares(NamedTuple):
    """Parts of the time since the reading before, 0..1."""

    ran: float
    queued: float


class RunQueue:
    """One process. Shares need no reading a second: there is one after some seconds, and less and
    less often, up to a minute; by chance, so that no reader who takes each so many-th second
    misses all readings.

    `due_ns`: before that :meth:`shares` need not be asked.
    """

    __slots__ = ("_chance", "_file", "_mean_s", "_read_ns", "_times", "due_ns")

    def __init__(self, folder: Path, chance: Random) -> None:
        self._file = KeptFile(folder / "schedstat")
        self._chance = chance
        self._mean_s = _SHORTEST_S
        self._read_ns = 0
        self.due_ns: float = 0
        self._times: RunTimes | None = None

    def shares(self, mono_ns: int) -> RunShares | None:
        """None: not due, the first reading, or not told here."""
        if mono_ns < self.due_ns:
            return None
        self.due_ns = mono_ns + self._mean_s * self._chance.uniform(0.5, 1.5) * _NS
        self._mean_s = min(self._mean_s * _GROWTH, _LONGEST_S)
        before, span_ns = self._times, mono_ns - self._read_ns
        self._times, self._read_ns = parse_run_times(self._file.read() or b""), mono_ns
        if self._times is None:
            self.due_ns = float("inf")
            self._file.close()
        if before is None or self._times is None or span_ns <= 0:
            return None
        ran, queued = (
            min(1.0, max(0, now - then) / span_ns)
            for now, then in zip(self._times, before, strict=True)
        )
        return RunShares(ran, queued)

    def close(self) -> None:
        """Give the descriptor back; a later call opens again."""
        self._file.close()


def parse_run_times(raw: bytes) -> RunTimes | None:
    """None where the kernel does not count, or the thread never ran."""
    words = raw.split()
    if len(words) != 3 or not all(word.isdigit() for word in words) or words[2] == b"0":
        return None
    ran_ns, queued_ns = (min(int(word), _LARGEST) for word in words[:2])
    return RunTimes(ran_ns, queued_ns)
