"""Effective read latency: time in storage waits over the reads made in the same seconds.

Two independent counters: samples of where the processes slept, and the kernel's counts of read
calls, major faults and bytes. Their quotient is what one read really cost, on any file system,
with nothing read from the file system itself. Read calls on pipes count too, which makes the
quotient smaller, never larger.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.causes import Causes
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.seconds import with_second

_PROCESS_COLUMNS = (
    "mono_ns", "interval_ns", "rank", "role", "majflt", "syscr", "rchar_bytes", "read_bytes",
    "blkio_delay_ns",
)  # fmt: skip
_KEYS = ["node", "rank", "role", "sec"]


@dataclass(frozen=True)
class ReadLatency:
    """Sums over the processes and seconds in which storage waits were seen; None = not recorded."""

    storage_s: float
    calls: int | None
    bytes: int | None
    blkio_s: float | None


def read_latency(tables: Tables, causes: Causes) -> ReadLatency | None:
    """None when no process was ever seen in a storage wait."""
    waits = _storage_seconds(causes.samples)
    if waits.is_empty():
        return None
    counts = _counts(tables, causes, waits)
    both = waits.join(counts, on=_KEYS, how="inner")
    if both.is_empty():
        return ReadLatency(float(waits["storage_s"].sum()), None, None, None)
    known = both.drop_nulls("calls")
    delay_ns = both["blkio_delay_ns"].drop_nulls()
    return ReadLatency(
        storage_s=float(both["storage_s"].sum()),
        calls=int(known["calls"].sum()) if not known.is_empty() else None,
        bytes=int(known["moved"].fill_null(0).sum()),
        blkio_s=float(delay_ns.sum()) / 1e9 if not delay_ns.is_empty() else None,
    )


def _storage_seconds(samples: pl.DataFrame) -> pl.DataFrame:
    """Process-seconds in storage by node, rank, role and second, whatever the rank was doing."""
    ticks = samples.group_by("node", "rank", "role", "sec", "mono_ns", "phase", "loader").agg(
        pl.col("passes", "interval_ns").max(),
        (pl.col("n_storage") + pl.col("n_net")).sum().alias("hits"),
    )
    by_tick = ticks.group_by(*_KEYS, "mono_ns").agg(
        pl.col("passes", "hits").sum(), pl.col("interval_ns").max()
    )
    by_tick = by_tick.filter((pl.col("hits") > 0) & (pl.col("passes") > 0))
    seconds = pl.col("hits") / pl.col("passes") * pl.col("interval_ns") / 1e9
    return by_tick.group_by(_KEYS).agg(seconds.sum().alias("storage_s"))


def _counts(tables: Tables, causes: Causes, waits: pl.DataFrame) -> pl.DataFrame:
    """Read calls and faults, bytes moved and delay of the processes in the seconds of `waits`."""
    raw = tables.frame("process", _PROCESS_COLUMNS, causes.every)
    raw = raw.drop_nulls(["mono_ns", "interval_ns"])
    raw = raw.filter(pl.col("role").is_in(["rank", "worker"]))
    placed = with_second(raw.with_columns(pl.col("rank").fill_null(-1)), causes.phases)
    here = placed.join(waits.select(_KEYS), on=_KEYS, how="semi")
    moved = pl.max_horizontal("rchar_bytes", "read_bytes")
    return here.group_by(_KEYS).agg(
        # Faults alone are not enough: without the right to read /proc/PID/io calls are unknown.
        pl.when(pl.col("syscr").count() == pl.len())
        .then(pl.col("syscr").sum() + pl.col("majflt").sum())
        .alias("calls"),
        moved.sum().alias("moved"),
        pl.when(pl.col("blkio_delay_ns").count() > 0)
        .then(pl.col("blkio_delay_ns").sum())
        .alias("blkio_delay_ns"),
    )
