"""Effective read latency: time in storage waits over the reads made in the same seconds.

Two independent counters: samples of where the processes slept, and the kernel's counts of read
calls, major faults and bytes. Their quotient is what one read really cost, on any file system,
with nothing read from the file system itself. Read calls on pipes count too, which makes the
quotient smaller, never larger. Start-up is left out: a process that imports reads a thousand small
files from memory, and one look that finds it in storage would count them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum

import polars as pl

from slurm_io.analysis.batches import NS
from slurm_io.analysis.causes import Causes
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.process_table import loader_processes
from slurm_io.analysis.samples import between_waits

_PROCESS_COLUMNS = (
    "mono_ns", "interval_ns", "rank", "role", "majflt", "syscr", "rchar_bytes", "read_bytes",
    "blkio_delay_ns",
)  # fmt: skip
_KEYS = ["node", "rank", "role", "sec"]
_LOOK_COLUMNS = (
    *_KEYS, "mono_ns", "interval_ns", "phase", "loader", "passes", "n_storage", "n_net",
)  # fmt: skip
_LEAST_STORAGE_S = 0.3
_OFTEN = 0.5
_LONG_S, _MOST_SHARE = 0.5, 0.5
_MOST_SECONDS = 60  # of one row: what it covers beyond that is left out


@dataclass(frozen=True)
class ReadLatency:
    """Sums over the processes and seconds in which storage waits were seen; None = not recorded."""

    storage_s: float
    calls: int | None
    bytes: int | None
    blkio_s: float | None


def read_latency(tables: Tables, causes: Causes) -> ReadLatency | None:
    """None when no process was ever seen in a storage wait. Computed once for these `causes`."""
    known = tables.kept.get("read_latency")
    if known is None or known[0] is not causes:
        known = tables.kept["read_latency"] = (causes, _read_latency(tables, causes))
    found: ReadLatency | None = known[1]
    return found


def _read_latency(tables: Tables, causes: Causes) -> ReadLatency | None:
    looks = causes.samples.select("proc", *_LOOK_COLUMNS)
    waits = _where_it_was_long(_storage_seconds(between_waits(looks, causes.evidence)))
    if waits.is_empty():
        return None
    counts = _counts(tables, causes, waits)
    both = waits.join(counts.select(_KEYS).unique(), on=_KEYS, how="semi")
    if both.is_empty():
        return ReadLatency(_total(waits["storage_s"]), None, None, None)
    counts = counts.filter((pl.col("row") != pl.col("row").shift(1)).fill_null(True))
    known = counts.drop_nulls("calls")
    delay_ns = counts["blkio_delay_ns"].drop_nulls()
    return ReadLatency(
        storage_s=_total(both["storage_s"]),
        calls=round(known["calls"].sum()) if not known.is_empty() else None,
        bytes=round(known["moved"].fill_null(0).sum()),
        blkio_s=float(delay_ns.sum()) / 1e9 if not delay_ns.is_empty() else None,
    )


def _total(seconds: pl.Series) -> float:
    """Whatever their order, which differs from run to run: the report must not."""
    return fsum(seconds.to_list())


def _where_it_was_long(waits: pl.DataFrame) -> pl.DataFrame:
    """Of `waits` the seconds with half a second and more of it, where most of the time lies there.

    Of rare long reads the seconds between say nothing, and hold most of the calls.
    """
    long = waits.filter(pl.col("storage_s") >= _LONG_S)
    most = float(long["storage_s"].sum()) >= _MOST_SHARE * float(waits["storage_s"].sum())
    return long if most else waits


def latency_by_second(tables: Tables, causes: Causes) -> pl.DataFrame:
    """(node, sec, ms): mean time of a read call or fault in each second that had one and samples,
    all readers of the node together. Less than 0.3 s in storage count as none: three samples at
    10 Hz."""
    waits = _storage_seconds(causes.samples).group_by("node", "sec").agg(pl.col("storage_s").sum())
    raw = loader_processes(tables, causes.every).select("node", *_PROCESS_COLUMNS)
    placed = _covered(raw.filter(pl.col("interval_ns") > 0), causes.phases)
    # A pass may look at a part of the ranks only: of the others calls do not count either.
    looked = causes.samples.select(_KEYS).unique()
    placed = placed.drop_nulls("syscr").join(looked, on=_KEYS, how="semi")
    calls = ((pl.col("syscr") + pl.col("majflt").fill_null(0)) / pl.col("n_sec")).sum()
    seconds = placed.group_by("node", "sec").agg(calls.alias("calls"))
    both = seconds.filter(pl.col("calls") > 0).join(waits, on=["node", "sec"], how="left")
    storage_s = pl.col("storage_s").fill_null(0.0)
    told_s = pl.when(storage_s >= _LEAST_STORAGE_S).then(storage_s).otherwise(0.0)
    return both.select("node", "sec", (told_s * 1000 / pl.col("calls")).alias("ms"))


def storage_by_second(causes: Causes) -> pl.DataFrame:
    """(node, sec, storage_s): what all processes of the node together slept in storage waits."""
    waits = _storage_seconds(causes.samples)
    return waits.group_by("node", "sec").agg(pl.col("storage_s").sum())


def _storage_seconds(samples: pl.DataFrame) -> pl.DataFrame:
    """Process-seconds in storage by node, rank, role and second, whatever the rank was doing."""
    hits = (pl.col("n_storage") + pl.col("n_net")).sum().alias("hits")
    # Ranks with workers hardly ever read: whoever never did has no storage seconds.
    who = ["node", "rank", "role"]
    readers = samples.group_by(who).agg(hits).filter(pl.col("hits") > 0)
    looks = samples.select(_LOOK_COLUMNS).join(readers, on=who, how="semi", maintain_order="left")
    ticks = looks.group_by(*who, "sec", "mono_ns", "phase", "loader").agg(
        pl.col("passes", "interval_ns").max(), hits
    )
    by_tick = ticks.group_by(*_KEYS, "mono_ns").agg(
        pl.col("passes", "hits").sum(), pl.col("interval_ns").max()
    )
    by_tick = by_tick.filter((pl.col("hits") > 0) & (pl.col("passes") > 0))
    seconds = pl.col("hits") / pl.col("passes") * pl.col("interval_ns") / 1e9
    return by_tick.group_by(_KEYS).agg(seconds.sum().alias("storage_s"))


def _counts(tables: Tables, causes: Causes, waits: pl.DataFrame) -> pl.DataFrame:
    """Read calls and faults, bytes moved and delay of the process rows that cover a second of
    `waits`; a row (`row` numbers it) comes once for each of those seconds, one behind the other.

    A row can cover many seconds, and counts as a whole, which makes the quotient smaller, never
    larger. Where only each so many-th second was looked at, that part of it counts.
    """
    raw = loader_processes(tables, causes.every).select("node", *_PROCESS_COLUMNS)
    placed = _covered(raw.filter(pl.col("interval_ns") > 0), causes.phases)
    here = placed.join(waits.select(_KEYS), on=_KEYS, how="semi", maintain_order="left")
    weight: pl.Expr = pl.lit(1.0)
    if (here["n_sec"] > 1).any():  # of a row of one second all was looked at
        whole = placed.join(here.select("row").unique(), on="row", how="semi")
        here = here.join(
            _looked_parts(whole, causes.samples), on="row", how="left", maintain_order="left"
        )
        weight = pl.col("part")
    return here.select(
        *_KEYS,
        "row",
        # Faults alone are not enough: without the right to read /proc/PID/io calls are unknown.
        ((pl.col("syscr") + pl.col("majflt").fill_null(0)) * weight).alias("calls"),
        (pl.max_horizontal("rchar_bytes", "read_bytes") * weight).alias("moved"),
        pl.col("blkio_delay_ns") * weight,
    )


def _looked_parts(placed: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """(row, part): of the seconds of each row the part that was looked at; 1 where the rank was
    looked at in most seconds, as it is while the sampler need not go slowly."""
    who = _KEYS[:-1]
    looked = samples.select(_KEYS).unique()
    span = pl.col("sec").max() - pl.col("sec").min() + 1
    often = looked.group_by(who).agg((pl.len() >= _OFTEN * span).alias("often"))
    seen = placed.join(looked, on=_KEYS, how="semi").join(often, on=who)
    looked_at = pl.len() / pl.col("n_sec").first()
    part = pl.when(pl.col("often").first()).then(1.0).otherwise(looked_at)
    return seen.group_by("row").agg(part.alias("part"))


def _covered(rows: pl.DataFrame, phases: pl.DataFrame) -> pl.DataFrame:
    """Each row once for every second it covers (`sec`), with their number `n_sec` and its `row`."""
    half_ns = pl.min_horizontal(pl.col("interval_ns"), NS) // 2
    end = pl.col("mono_ns") - pl.col("border") - half_ns
    start = pl.col("mono_ns") - pl.col("border") - pl.col("interval_ns") + half_ns
    longest = pl.min_horizontal(end // NS - start // NS, _MOST_SECONDS - 1)
    placed = rows.with_row_index("row").join(phases, on="node", how="left", maintain_order="left")
    placed = placed.with_columns((end // NS).alias("sec"), (longest + 1).alias("n_sec"))
    placed = placed.filter(pl.col("border").is_not_null()).drop("border")
    long = placed.filter(pl.col("n_sec") != 1).with_columns(
        pl.int_ranges(pl.col("sec") - pl.col("n_sec") + 1, pl.col("sec") + 1).alias("sec")
    )
    # Nearly all rows cover one second; to make lists of one and take them apart is dear.
    return pl.concat([placed.filter(pl.col("n_sec") == 1), long.explode("sec")])
