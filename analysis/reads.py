"""What the job read, pass by pass: asked for, come from storage, held in memory.

Of the loaders' processes (workers, without workers the ranks; without a hook all of both):

- *asked for* is rchar: bytes through read calls on anything, the page cache's hits and pipes
  included, reads through mmap not;
- *from storage* lies between bounds, see :mod:`.read_sources`;
- *held* is the rest: 1 - storage / asked for. It is not known where files are mapped.

Sums are of what was seen: a process that lives for one pass is first looked at some moments after
its birth and last up to a second before its end. `seen_share` says how much of the workers' time
was looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

from slurm_io.analysis.causes import Causes
from slurm_io.analysis.facts import mapping, ranks_of, whole
from slurm_io.analysis.inputs import StoreView, Tables
from slurm_io.analysis.read_counts import of_readers, process_rows
from slurm_io.analysis.read_slices import Slices, of_nodes, of_timeline
from slurm_io.analysis.read_sources import Bounds, ReadMounts, bounds_of, read_mounts
from slurm_io.analysis.read_sums import (
    Count,
    count_clients,
    count_processes,
    count_waits,
    seen_shares,
)
from slurm_io.analysis.samples import read_samples, thinning
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.analysis.timeline import Timeline

_MAPPED_SHARE = 0.2  # of the storage samples that were page faults: rchar misses that much at least
_REFUSED_SHARE = 0.05
_MORE_THAN_ASKED = 1.05


@dataclass(frozen=True)
class ReadSlice:
    """One pass (or several, or a stretch of time). Bytes over all nodes, None = not known.

    `wait_s` and `batches`: exposed data wait of the batches that count (not the first of a pass nor
    the warm-up of the job). `cpu_s`, `majflt`: of the readers, in the slice. `held_*` are shares of
    `asked_bytes`. `why` says why something is None.
    """

    epochs: tuple[int, int] | None
    start_ns: int
    end_ns: int
    span_s: float
    batches: int
    waits: int
    wait_s: float
    asked_bytes: float | None
    storage: Bounds
    client_bytes: float | None
    majflt: int | None
    cpu_s: float | None
    seen_share: float | None
    held_low: float | None
    held_high: float | None
    why: str

    @property
    def wait_per_batch_s(self) -> float | None:
        """Mean exposed data wait; None where no batch was timed."""
        return self.wait_s / self.waits if self.waits else None


@dataclass(frozen=True)
class Reads:
    """All slices. `mapped`: a good part of the storage waits were page faults of mapped files."""

    kind: Literal["epoch", "time"]
    readers: Literal["workers", "ranks", "ranks and workers"]
    slices: tuple[ReadSlice, ...]
    mounts: tuple[tuple[str, str], ...]
    mapped: bool
    thinned: bool


def find_reads(
    tables: Tables, timeline: Timeline, causes: Causes, thresholds: Thresholds
) -> Reads | None:
    """None where no process was counted."""
    seen = _seen(tables, timeline, causes, thresholds)
    if seen.rows.is_empty() or seen.slices.pieces.is_empty():
        return None
    where = read_mounts(seen.samples, tables.store)
    mapped = _is_mapped(seen.samples)
    put = _Sums(
        seen.nodes,
        where,
        count_processes(seen.rows, seen.slices, seen.nodes, seen.every),
        count_clients(tables, seen.slices, seen.nodes, where, seen.every),
        mapped,
    )
    waits = count_waits(causes.rows, timeline, seen.slices)
    watched = seen_shares(seen.rows, seen.slices, timeline, tables.store, seen.every)
    found = _slices(put, seen.slices, _utc(seen, tables.store), waits, watched)
    pairs = (pair for one in where.values() if one.seen for pair in one.mounts)
    return Reads(
        seen.slices.kind, _readers(timeline), found, tuple(dict.fromkeys(pairs)), mapped,
        seen.every > 1,
    )  # fmt: skip


@dataclass(frozen=True)
class _Seen:
    """Rows of the readers, whose they are, and the slices they are put in."""

    rows: pl.DataFrame
    samples: pl.DataFrame
    slices: Slices
    nodes: dict[int, str]
    every: int


@dataclass(frozen=True)
class _Sums:
    """What was counted, by node."""

    nodes: dict[int, str]
    where: dict[str, ReadMounts]
    counts: dict[tuple[str, int], Count]
    wire: dict[str, dict[str, dict[int, float] | None]]
    mapped: bool

    def storage(self, number: int) -> Bounds:
        """All nodes' together."""
        low, high, why = 0.0, 0.0, ""
        is_low, is_high = True, True
        for name in sorted(set(self.nodes.values())):
            one = self._of_node(name, number)
            why = why or one.why
            is_low, is_high = is_low and one.low is not None, is_high and one.high is not None
            low, high = low + (one.low or 0.0), high + (one.high or 0.0)
        return Bounds(low if is_low else None, high if is_high else None, why)

    def client(self, number: int) -> float | None:
        """Bytes on the wire of the mounts that are read; None where no client counts."""
        by_mount = [moved for name in set(self.nodes.values()) for moved in self._wire(name)]
        if not by_mount or None in by_mount:
            return None
        return sum(moved.get(number, 0.0) for moved in by_mount if moved is not None)

    def total(self, name: str, number: int) -> float | None:
        """A counter of all nodes; None where it could not be read on one."""
        mine = [one for (_, at), one in self.counts.items() if at == number]
        if not mine:
            return None
        is_io = name in ("asked", "read")
        if is_io and any(one.refused_share > _REFUSED_SHARE for one in mine):
            return None
        return float(sum(getattr(one, name) for one in mine))

    def _of_node(self, name: str, number: int) -> Bounds:
        count = self.counts.get((name, number))
        if count is None:
            return Bounds(0.0, 0.0)
        read = None if count.refused_share > _REFUSED_SHARE else count.read
        wire = {
            mount: None if moved is None else moved.get(number, 0.0)
            for mount, moved in self.wire.get(name, {}).items()
        }
        return bounds_of(read, self.where[name], wire)

    def _wire(self, name: str) -> list[dict[int, float] | None]:
        return list(self.wire.get(name, {}).values())


def _seen(tables: Tables, timeline: Timeline, causes: Causes, thresholds: Thresholds) -> _Seen:
    if timeline.processes:
        rows = of_readers(process_rows(tables, causes.every), timeline)
        nodes = {process.proc: process.node for process in timeline.processes}
        return _Seen(rows, causes.samples, of_timeline(timeline), nodes, causes.every)
    nodes = dict(enumerate(sorted(tables.store.nodes)))
    every = thinning(_watched_s(tables.store), thresholds.sampling)
    rows = process_rows(tables, every)
    owners = {name: owner for owner, name in nodes.items()}
    owner = pl.col("node").cast(pl.String).replace_strict(owners, return_dtype=pl.Int32)
    rows = rows.with_columns(owner.alias("owner"))
    spans = rows.group_by("owner").agg(
        (pl.col("mono_ns") - pl.col("interval_ns")).min().alias("from"), pl.col("mono_ns").max()
    )
    slices = of_nodes({number: (start, end) for number, start, end in spans.rows()})
    return _Seen(rows, read_samples(tables, every), slices, nodes, every)


def _watched_s(store: StoreView) -> float:
    """Seconds of ranks and workers, for thinning."""
    total = 0.0
    for view in store.nodes.values():
        start, end = whole(view.meta.get("start_ts_ns")), whole(view.meta.get("end_ts_ns"))
        processes = len(ranks_of(view)) + (whole(view.meta.get("workers_seen")) or 0)
        total += max(0, (end or 0) - (start or 0)) / 1e9 * processes if start and end else 0.0
    return total


def _slices(
    put: _Sums,
    slices: Slices,
    spans: dict[int, tuple[int, int, float]],
    waits: pl.DataFrame,
    watched: dict[int, float],
) -> tuple[ReadSlice, ...]:
    timed = {number: rest for number, *rest in waits.iter_rows()}
    found = []
    for number, (start_ns, end_ns, span_s) in sorted(spans.items()):
        asked, storage = put.total("asked", number), put.storage(number)
        held_low, held_high, why = _held(asked, storage, put.mapped)
        batches, counted, wait_s = timed.get(number, (0, 0, 0.0))
        majflt = put.total("majflt", number)
        found.append(
            ReadSlice(
                slices.epochs[number], start_ns, end_ns, span_s, batches, counted, wait_s, asked,
                storage, put.client(number), None if majflt is None else round(majflt),
                put.total("cpu_s", number), watched.get(number), held_low, held_high, why,
            )
        )  # fmt: skip
    return tuple(found)


def _held(
    asked: float | None, storage: Bounds, mapped: bool
) -> tuple[float | None, float | None, str]:
    """Bounds of 1 - storage / asked, and why one is missing."""
    if asked is None or storage.low is None:
        return None, None, storage.why or "/proc/PID/io of the readers could not be read"
    if mapped:
        return None, None, "files are mapped: what was asked for of them is not counted"
    if asked <= 0:
        return None, None, "nothing was read through read calls"
    if storage.low > _MORE_THAN_ASKED * asked:
        why = "more came from storage than read calls asked for (mapped files, or readahead)"
        return None, None, why
    high = 1.0 - min(1.0, storage.low / asked)
    low = None if storage.high is None else 1.0 - min(1.0, storage.high / asked)
    return low, high, storage.why


def _is_mapped(samples: pl.DataFrame) -> bool:
    storage, faults = int(samples["n_storage"].sum()), int(samples["n_fault"].sum())
    return storage > 0 and faults >= _MAPPED_SHARE * storage


def _utc(seen: _Seen, store: StoreView) -> dict[int, tuple[int, int, float]]:
    """Slice -> (start, end in UTC ns, seconds); seconds are those of the owner with most."""
    offsets = {owner: _offset(store, name) for owner, name in seen.nodes.items()}
    offset = pl.col("owner").replace_strict(offsets, return_dtype=pl.Int64)
    length = (pl.col("end") - pl.col("start")) / 1e9
    by_owner = seen.slices.pieces.group_by("owner", "slice").agg(
        length.sum().alias("span_s"),
        (pl.col("start") + offset).min(),
        (pl.col("end") + offset).max(),
    )
    by_slice = by_owner.group_by("slice").agg(
        pl.col("start").min(), pl.col("end").max(), pl.col("span_s").max()
    )
    return {number: (start, end, span) for number, start, end, span in by_slice.rows()}


def _offset(store: StoreView, name: str) -> int:
    clock = mapping(store.nodes[name].meta.get("clock"))
    return whole(clock.get("realtime_minus_monotonic_ns")) or 0


def _readers(timeline: Timeline) -> Literal["workers", "ranks", "ranks and workers"]:
    kinds = {process.has_workers for process in timeline.processes}
    if kinds == {True}:
        return "workers"
    return "ranks" if kinds == {False} else "ranks and workers"
