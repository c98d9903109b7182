"""The common queue: sources take files from it, and give back what they could not bring.

A source that is fast takes more; none gets a file that another one is bringing; a file that one
source has refused goes to the others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage.engines.base import Ranges
from slurm_io.staging.stage.model import Failure

BIG_BYTES = 64 << 20
BATCH_BYTES = 1 << 30
LEAST_FILES = 16
"""Of small files a call gets so many, however few are left: a call has its price."""


@dataclass(slots=True)
class Item:
    """One file to bring, one of millions; whoever took it owns it.

    `refused`: sources that have no such file. `tries`: (source, number). `slot`: name of the slot
    where a part of it lies, `ranges` what is wrong or missing there (None: not known). `salvage`: a
    bad version under its own name has good pieces. `replaces`: there is a bad version.
    """

    index: int
    entry: FileEntry
    refused: frozenset[int] = frozenset()
    tries: tuple[tuple[int, int], ...] = ()
    slot: bytes | None = None
    ranges: Ranges | None = None
    salvage: bool = False
    replaces: bool = False
    last: Failure | None = None

    @property
    def size_bytes(self) -> int:
        """As the manifest has it."""
        return self.entry.size_bytes or 0

    def refuse(self, source: int) -> None:
        """A source has no such file."""
        self.refused |= {source}

    def tried(self, source: int) -> int:
        """A source has failed to bring it; how often by now."""
        tries = dict(self.tries)
        tries[source] = tries.get(source, 0) + 1
        self.tries = tuple(tries.items())
        return tries[source]


class Share:
    """The queue. Big files first, the biggest at once, so that no source ends long after others;
    small ones in the order of their folders. A call gets at most half of a thread's even share of
    what is left, so that all have something to do to the end."""

    def __init__(self, items: Iterable[Item], lanes: int = 1) -> None:
        """`lanes`: threads that take from it."""
        every = list(items)
        self._lanes = lanes
        self._left_bytes = sum(item.size_bytes for item in every)
        big = sorted((i for i in every if i.size_bytes >= BIG_BYTES), key=lambda i: -i.size_bytes)
        self._fresh = deque(big + [i for i in every if i.size_bytes < BIG_BYTES])
        self._returned: dict[frozenset[int], deque[Item]] = {}
        self._in_flight = 0
        self._changed = threading.Condition()
        self._closed = False
        self._dropped: set[int] = set()

    def take(self, source: int, files_max: int) -> list[Item]:
        """Files for one call; waits while others may still give some back. [] = no more for it."""
        with self._changed:
            while not self._closed and source not in self._dropped:
                taken = self._taken(source, files_max)
                if taken:
                    self._in_flight += len(taken)
                    return taken
                if not self._in_flight:
                    break
                self._changed.wait()
            return []

    def finish(self, count: int = 1) -> None:
        """So many files that were taken will not come back."""
        with self._changed:
            self._in_flight -= count
            self._changed.notify_all()

    def give_back(self, items: Iterable[Item]) -> None:
        """For others, or for another try."""
        with self._changed:
            for item in items:
                self._returned.setdefault(item.refused, deque()).append(item)
                self._left_bytes += item.size_bytes
                self._in_flight -= 1
            self._changed.notify_all()

    def drop(self, source: int) -> None:
        """A source gets nothing any more."""
        with self._changed:
            self._dropped.add(source)
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody gets anything any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def left(self) -> list[Item]:
        """What nobody took."""
        with self._changed:
            returned = [item for queue in self._returned.values() for item in queue]
            return [*returned, *self._fresh]

    def _taken(self, source: int, files_max: int) -> list[Item]:
        """What came back first: somebody waits for it longest."""
        for refused, queue in self._returned.items():
            if queue and source not in refused:
                return self._first(queue, files_max)
        return self._first(self._fresh, files_max)

    def _first(self, queue: deque[Item], files_max: int) -> list[Item]:
        """The first files of a queue, as many as go into one call."""
        bytes_max = BATCH_BYTES
        if self._lanes > 1:
            files_max = min(files_max, max(LEAST_FILES, len(queue) // (2 * self._lanes)))
            bytes_max = min(bytes_max, max(BIG_BYTES, self._left_bytes // (2 * self._lanes)))
        taken: list[Item] = []
        size = 0
        while queue and len(taken) < files_max:
            size += queue[0].size_bytes
            if taken and size > bytes_max:
                break
            taken.append(queue.popleft())
            self._left_bytes -= taken[-1].size_bytes
        return taken
