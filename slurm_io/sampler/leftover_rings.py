"""One ring of the hook read from its oldest record to its newest, after its sampler was killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slurm_io.collectors.base import Row
from slurm_io.sampler.ring_folder import FoundRing
from slurm_io.sampler.ring_rows import RingRows
from slurm_io.store.packed import unpacked
from slurm_io.store.schema import TABLES

MOST_RECORDS = 131072
"""Of a ring: eight times what the hook makes. The file is the user's, the memory is ours."""

_QUIET_DRAINS = 4  # a number taken and never written is given up at the third
_STEP_TYPES = [column.type for column in TABLES["steps"].columns]


@dataclass(frozen=True)
class RingContent:
    """What a ring held. `rows` by table; `overwritten` records were gone before we came; `rank` is
    its entry of ``ranks`` in meta.json, None of a process that timed no batch."""

    pid: int
    starttime: int
    rows: dict[str, list[Row]]
    overwritten: int
    garbage: int
    is_whole: bool
    rank: dict[str, Any] | None
    loaders: list[dict[str, Any]]


def read_content(
    found: FoundRing, pid: int, offset_ns: int, in_time: Callable[[], bool]
) -> RingContent:
    """Everything there is now. `pid` is the process's as the tables have it.

    A writer that still lives, or lies about what it wrote, cannot make it last: no more is read
    than twice the ring, and only while `in_time`.
    """
    ring = found.ring
    maker = RingRows(pid, ring.greeting.rank, offset_ns)
    rows: dict[str, list[Row]] = {"steps": [], "gpu_waits": [], "events": []}
    overwritten: int | None = None
    quiet = 0
    while quiet < _QUIET_DRAINS and ring.counts.read < 2 * ring.header.n_records and in_time():
        read_before = ring.counts.read
        steps, events = maker.convert(ring.drain())
        rows["steps"] += steps
        for block in maker.take_packed():
            rows["steps"] += unpacked(_STEP_TYPES, block)
        rows["gpu_waits"] += maker.take_gpu_waits()
        rows["events"] += events
        quiet = quiet + 1 if ring.counts.read == read_before else 0
        if overwritten is None and not quiet:
            overwritten = ring.counts.overrun
    rows["events"] += maker.flush()
    return RingContent(
        pid=pid,
        starttime=found.starttime,
        rows=rows,
        overwritten=overwritten or 0,
        garbage=ring.counts.garbage,
        is_whole=quiet >= _QUIET_DRAINS,
        rank=_rank_facts(found, maker, offset_ns) if maker.batches else None,
        loaders=list(maker.loaders.values()),
    )


def _rank_facts(found: FoundRing, maker: RingRows, offset_ns: int) -> dict[str, Any]:
    """As a living sampler writes them."""
    greeting, counts = found.ring.greeting, found.ring.gpu_counts()
    return {
        "rank": greeting.rank,
        "pid": maker.pid,
        "starttime": found.starttime,
        "local_rank": greeting.local_rank,
        "world_size": greeting.world_size,
        "python": greeting.python,
        "torch": greeting.torch,
        "first_ts_ns": None if maker.first_ns is None else maker.first_ns + offset_ns,
        "last_ts_ns": None if maker.last_ns is None else maker.last_ns + offset_ns,
        "gpu_idle": counts._asdict() if counts is not None and any(counts) else None,
        "own_waits": [one._asdict() for one in found.ring.own_waits()],
    }
