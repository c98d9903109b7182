"""All rings of a job: drains them, knows which process writes which, forgets the finished ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_io.collectors.base import Row
from slurm_io.sampler.ring_folder import FoundRing, RingFolder
from slurm_io.sampler.ring_rows import RingRows
from slurm_io.store.packed import PackedRows

_DRAINS_AFTER_END = 2
_YOUNG_DRAINS = 30
_MOST_REMEMBERED = 4096
_MOST_RECORDS_A_DRAIN = 32768  # of all rings: they are the user's, CPU and memory are ours

FindPid = Callable[[int, int, int | None], int | None]
"""(pid as its writer sees it, starttime, its pid namespace or None for the machine's own) -> pid
here, None when no such process lives."""


@dataclass
class _Writer:
    """One ring and what is known of its process."""

    found: FoundRing
    rows: RingRows
    number: int = 0
    first_drain: int = 0
    pid: int | None = None
    empty_drains_since_end: int = 0

    def is_due(self, drain: int, each: int) -> bool:
        """Whether its turn is now."""
        if (drain + self.number) % each == 0 or self.pid is None:
            return True
        return drain - self.first_drain < _YOUNG_DRAINS or self.found.ring.is_filling()


class Rings:
    """The hook's side of the job as the sampler sees it.

    `along_from_ns` is set where the rings are another recording's: what they hold is taken from
    that moment (monotonic) on and of members only, and no file is removed.
    """

    def __init__(
        self,
        folder: Path,
        uid: int,
        offset_ns: int,
        find_pid: FindPid,
        along_from_ns: int | None = None,
    ) -> None:
        self._folder = RingFolder(folder, uid, removes=along_from_ns is None)
        self._along_from_ns = along_from_ns
        self._offset_ns = offset_ns
        self._find_pid = find_pid
        self._writers: list[_Writer] = []
        self._by_pid: dict[int, _Writer] = {}
        self._ranks: list[dict[str, Any]] = []
        self._loaders: list[dict[str, Any]] = []
        self._gpu_waits: list[Row] = []
        self._packed: list[PackedRows] = []
        self._turn = self._drains = self._welcomed = 0
        self._done = {"rings": 0, "records": 0, "overrun": 0, "garbage": 0}

    def drain(self, each: int = 1) -> tuple[list[Row], list[Row]]:
        """(steps rows, events rows) of everything new; :meth:`take_packed` and
        :meth:`take_gpu_waits` have the rest.

        `each`: a ring has its turn at each so many-th drain, all equally often. Whatever that says,
        a ring that is filling up or whose process is new has its turn now.
        """
        for found in self._folder.scan():
            self._welcome(found)
        steps: list[Row] = []
        events: list[Row] = []
        left = _MOST_RECORDS_A_DRAIN
        self._drains += 1
        for writer in self._in_turn():
            if each > 1 and not writer.is_due(self._drains, each):
                continue
            lives = self._locate(writer)
            if writer.pid is None and self._along_from_ns is not None:
                continue
            ring = writer.found.ring
            before = ring.counts.read
            new_steps, new_events = writer.rows.convert(ring.drain(left))
            left -= ring.counts.read - before
            steps += new_steps
            events += new_events
            self._packed += writer.rows.take_packed()
            self._gpu_waits += writer.rows.take_gpu_waits()
            gave_some = ring.counts.read > before or bool(new_events)
            if self._is_finished(writer, lives, gave_some):
                events += writer.rows.flush()
                self._dismiss(writer)
            if left <= 0:
                break
        return steps, events

    def take_packed(self) -> list[PackedRows]:
        """Rows of `steps` that came many at a time with the drains since the last call."""
        blocks, self._packed = self._packed, []
        return blocks

    def take_gpu_waits(self) -> list[Row]:
        """Rows of `gpu_waits` that came with the drains since the last call."""
        rows, self._gpu_waits = self._gpu_waits, []
        return rows

    def _in_turn(self) -> list[_Writer]:
        """All writers; each has its turn to come first, so that none keeps the others unread."""
        self._turn = (self._turn + 1) % max(1, len(self._writers))
        return self._writers[self._turn :] + self._writers[: self._turn]

    def phase_of(self, pid: int) -> tuple[str, int | None]:
        """What the process is in at this moment; ("none", None) without a ring."""
        writer = self._by_pid.get(pid)
        return writer.found.ring.phase() if writer is not None else ("none", None)

    def ranks(self) -> dict[int, int | None]:
        """Pid here -> global rank, of the living processes that have timed at least one batch."""
        return {
            pid: writer.rows.rank for pid, writer in self._by_pid.items() if writer.rows.batches
        }

    def rank_facts(self) -> list[dict[str, Any]]:
        """``ranks`` of meta.json."""
        return self._ranks + [_rank_facts(w, self._offset_ns) for w in self._writers if _is_rank(w)]

    def loader_facts(self) -> list[dict[str, Any]]:
        """``loaders`` of meta.json."""
        living = [facts for w in self._writers for facts in w.rows.loaders.values()]
        return (self._loaders + living)[:_MOST_REMEMBERED]

    def counts(self) -> dict[str, int]:
        """``hook`` of self.json."""
        total = dict(self._done)
        for writer in self._writers:
            _add_counts(total, writer)
        return {
            "rings": total["rings"],
            "records": total["records"],
            "overrun": total["overrun"],
            "refused": self._folder.refused + total["garbage"],
        }

    def close(self) -> list[Row]:
        """Close all rings; events rows that were still waiting for their text."""
        events = [row for writer in self._writers for row in writer.rows.flush()]
        for writer in self._writers:  # their facts are asked for once more behind this
            self._note(writer)
        self._writers.clear()
        self._folder.close()
        self._by_pid.clear()
        return events

    def _welcome(self, found: FoundRing) -> None:
        since_ns = -1 if self._along_from_ns is None else self._along_from_ns
        rows = RingRows(found.pid, found.ring.greeting.rank, self._offset_ns, since_ns)
        self._writers.append(_Writer(found, rows, self._welcomed, self._drains))
        self._welcomed += 1

    def _locate(self, writer: _Writer) -> bool:
        """Whether the process lives here; its pid here is noted once (containers count anew)."""
        found = writer.found
        pid = self._find_pid(found.pid, found.starttime, found.pid_ns)
        if pid is not None and writer.pid is None:
            writer.pid = writer.rows.pid = pid
            self._by_pid[pid] = writer
        return pid is not None

    def _is_finished(self, writer: _Writer, lives: bool, gave_rows: bool) -> bool:
        """True when nothing more can come. A process never seen here may live in a container."""
        has_ended = not lives and (writer.pid is not None or writer.found.ring.is_closed())
        if not has_ended or gave_rows:
            writer.empty_drains_since_end = 0
            return False
        writer.empty_drains_since_end += 1
        return writer.empty_drains_since_end >= _DRAINS_AFTER_END

    def _note(self, writer: _Writer) -> None:
        """What is told of it when its ring is closed."""
        _add_counts(self._done, writer)
        if _is_rank(writer) and len(self._ranks) < _MOST_REMEMBERED:
            self._ranks.append(_rank_facts(writer, self._offset_ns))
        room = _MOST_REMEMBERED - len(self._loaders)
        self._loaders += list(writer.rows.loaders.values())[:room]

    def _dismiss(self, writer: _Writer) -> None:
        self._note(writer)
        self._writers.remove(writer)
        with contextlib.suppress(KeyError):
            if writer.pid is not None and self._by_pid[writer.pid] is writer:
                del self._by_pid[writer.pid]
        self._folder.remove(writer.found)


def _is_rank(writer: _Writer) -> bool:
    return writer.rows.batches > 0


def _rank_facts(writer: _Writer, offset_ns: int) -> dict[str, Any]:
    greeting, rows = writer.found.ring.greeting, writer.rows
    return {
        "rank": greeting.rank,
        "pid": rows.pid,
        "starttime": writer.found.starttime,
        "local_rank": greeting.local_rank,
        "world_size": greeting.world_size,
        "python": greeting.python,
        "torch": greeting.torch,
        "first_ts_ns": None if rows.first_ns is None else rows.first_ns + offset_ns,
        "last_ts_ns": None if rows.last_ns is None else rows.last_ns + offset_ns,
        "gpu_idle": _gpu_facts(writer),
        "own_waits": [one._asdict() for one in writer.found.ring.own_waits()],
    }


def _gpu_facts(writer: _Writer) -> dict[str, Any] | None:
    """What the hook left unmeasured on the GPU; None where it left out nothing."""
    counts = writer.found.ring.gpu_counts()
    return counts._asdict() if counts is not None and any(counts) else None


def _add_counts(total: dict[str, int], writer: _Writer) -> None:
    counts = writer.found.ring.counts
    total["rings"] += 1
    total["records"] += counts.records
    total["overrun"] += counts.overrun
    total["garbage"] += counts.garbage
