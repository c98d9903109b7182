"""Where reads were slow: each node's latencies over time against their own usual one.

A series is one set of counters: a mount's client by operation class, or a block device under a
local mount. A bin is a spike when its latency is several times the series' own median and no longer
small, or when requests were in flight and none completed. Where a node has neither counters, its
readers' effective read latency (:func:`..latency.latency_by_second`) stands in; it is made from the
wait samples and so no signal of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.alignment.drops import Bins, to_marks
from slurm_io.analysis.batches import NS
from slurm_io.analysis.causes import Causes
from slurm_io.analysis.client_witness import of_waited_mounts
from slurm_io.analysis.devices import leaf_rows
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.latency import latency_by_second
from slurm_io.analysis.read_sources import ReadMounts
from slurm_io.analysis.thresholds import Alignment as Limits

_CLIENT = ("mount", "fstype", "source", "op_class", "ops", "rtt_ms", "exe_ms", "inflight")
_BLOCK = ("device", "role", "r_await", "stuck")
_LONGEST_BINS = 60  # of one row: what it covers beyond that is left out
EFFECTIVE = "effective read latency"


@dataclass(frozen=True)
class Latencies:
    """One series. `looked`: bins with a row; `known`: with a latency; `spikes` of these.
    `usual_ms`, `spike_ms`: medians of all and of the spikes."""

    node: str
    name: str
    mount: str | None
    fstype: str | None
    looked: int
    known: int
    spikes: int
    usual_ms: float
    spike_ms: float | None

    @property
    def is_counter(self) -> bool:
        """Counted by the kernel or the client, not derived from wait samples."""
        return self.name != EFFECTIVE


def find_latencies(
    tables: Tables,
    causes: Causes,
    bins: Mapping[str, Bins],
    every: int,
    where: Mapping[str, ReadMounts],
    local: frozenset[str],
    limits: Limits,
) -> list[Latencies]:
    """All series that have a latency at all, those with most spikes first.

    `local`: file system types on block devices of the node. `every`: so many-th seconds are read.
    """
    rows = pl.concat([_client_rows(tables, where, every), _block_rows(tables, where, local, every)])
    found = _series(_placed(rows, bins, causes.phases), limits)
    told = {one.node for one in found}
    silent = {node: one for node, one in bins.items() if node not in told}
    if silent:
        own = latency_by_second(tables, causes)
        found += _series(_in_bins(own, silent), limits)
    return sorted(found, key=lambda one: (-one.spikes.bit_count(), one.node, one.name))


def _client_rows(tables: Tables, where: Mapping[str, ReadMounts], every: int) -> pl.DataFrame:
    raw = tables.frame("fsclient", ("mono_ns", "interval_ns", *_CLIENT), every)
    raw = raw.with_columns(pl.col("node").cast(pl.String))
    rows = of_waited_mounts(raw.filter(pl.col("op_class").is_in(["read", "meta", "any"])), where)
    name = pl.concat_str(
        [pl.col(part).fill_null("?") for part in ("mount", "source", "op_class")], separator=" "
    )
    return rows.select(
        "node", "mono_ns", "interval_ns", name.alias("name"), "mount", "fstype",
        pl.coalesce("exe_ms", "rtt_ms").cast(pl.Float64).alias("ms"),
        ((pl.col("inflight") > 0) & (pl.col("ops") == 0)).fill_null(False).alias("stuck"),
    )  # fmt: skip


def _block_rows(
    tables: Tables, where: Mapping[str, ReadMounts], local: frozenset[str], every: int
) -> pl.DataFrame:
    raw = tables.frame("block", ("mono_ns", "interval_ns", *_BLOCK), every)
    raw = raw.with_columns(pl.col("node").cast(pl.String))
    waited = {
        node: [mount for mount, fstype in one.mounts if fstype in local]
        for node, one in where.items()
        if one.seen
    }
    remote = [node for node, mounts in waited.items() if not mounts]
    stalled = [(node, mount) for node, mounts in waited.items() for mount in mounts]
    rows = leaf_rows(raw.filter(~pl.col("node").is_in(remote)), tables.store, stalled)
    return rows.select(
        "node", "mono_ns", "interval_ns", pl.col("device").alias("name"),
        pl.lit(None, pl.String).alias("mount"), pl.lit(None, pl.String).alias("fstype"),
        pl.col("r_await").cast(pl.Float64).alias("ms"),
        pl.col("stuck").fill_null(False),
    )  # fmt: skip


def _placed(rows: pl.DataFrame, bins: Mapping[str, Bins], borders: pl.DataFrame) -> pl.DataFrame:
    """Rows once for every bin that they cover (`bin`)."""
    placed = rows.drop_nulls(["mono_ns", "interval_ns"]).filter(pl.col("interval_ns") > 0)
    known = borders.with_columns(pl.col("node").cast(pl.String))
    placed = placed.join(known, on="node").join(_frame(bins), on="node")
    # A row about as long as a second lies in the second that holds its middle.
    half = pl.min_horizontal(pl.col("interval_ns"), NS) // 2
    last = (pl.col("mono_ns") - half - pl.col("border")) // NS
    first = (pl.col("mono_ns") - pl.col("interval_ns") + half - pl.col("border")) // NS
    return _spread(placed.with_columns(first.alias("from"), last.alias("to")))


def _in_bins(rows: pl.DataFrame, bins: Mapping[str, Bins]) -> pl.DataFrame:
    """Rows of (node, sec, ms) as :func:`_placed` makes them."""
    placed = rows.with_columns(pl.col("node").cast(pl.String)).join(_frame(bins), on="node")
    return _spread(
        placed.with_columns(
            pl.lit(EFFECTIVE).alias("name"),
            pl.lit(None, pl.String).alias("mount"),
            pl.lit(None, pl.String).alias("fstype"),
            pl.lit(False).alias("stuck"),
            pl.col("sec").alias("from"),
            pl.col("sec").alias("to"),
        )
    )


def _spread(rows: pl.DataFrame) -> pl.DataFrame:
    low = (pl.col("from") - pl.col("first")) // pl.col("width")
    high = (pl.col("to") - pl.col("first")) // pl.col("width")
    low = pl.max_horizontal(low, high - (_LONGEST_BINS - 1), pl.lit(0))
    high = pl.min_horizontal(high, pl.col("length") - 1)
    inside = rows.with_columns(low.alias("low"), high.alias("high")).filter(
        pl.col("low") <= pl.col("high")
    )
    return inside.with_columns(
        pl.int_ranges("low", pl.col("high") + 1, dtype=pl.Int64).alias("bin")
    ).explode("bin").select("node", "name", "mount", "fstype", "bin", "ms", "stuck")  # fmt: skip


def _frame(bins: Mapping[str, Bins]) -> pl.DataFrame:
    return pl.DataFrame(
        [(one.node, one.first, one.length, one.width) for one in bins.values()],
        schema={"node": pl.String, "first": pl.Int64, "length": pl.Int64, "width": pl.Int64},
        orient="row",
    )


def _series(rows: pl.DataFrame, limits: Limits) -> list[Latencies]:
    by_bin = rows.group_by("node", "name", "bin").agg(
        pl.col("mount", "fstype").first(), pl.col("ms").max(), pl.col("stuck").any()
    )
    usual = pl.col("ms").median().over("node", "name")
    marked = by_bin.with_columns(usual.alias("usual")).with_columns(
        (pl.col("ms").is_not_null() | pl.col("stuck")).alias("known"),
        (
            pl.col("stuck")
            | (pl.col("ms") >= pl.max_horizontal(pl.lit(limits.spike_floor_ms),
                                                 limits.spike_ratio * pl.col("usual")))
            .fill_null(False)
        ).alias("spike"),
    )  # fmt: skip
    found = []
    for (node, name), part in marked.sort("bin").group_by("node", "name", maintain_order=True):
        known = part.filter("known")
        usual_ms = known["usual"].drop_nulls().first()
        if known.is_empty() or not isinstance(usual_ms, float):
            continue
        spikes = known.filter("spike")
        spike_ms = spikes["ms"].median()
        found.append(
            Latencies(
                node=str(node),
                name=str(name),
                mount=_text(known["mount"].drop_nulls().first()),
                fstype=_text(known["fstype"].drop_nulls().first()),
                looked=to_marks(part["bin"].to_list()),
                known=to_marks(known["bin"].to_list()),
                spikes=to_marks(spikes["bin"].to_list()),
                usual_ms=usual_ms,
                spike_ms=spike_ms if isinstance(spike_ms, float) else None,
            )
        )
    return found


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
