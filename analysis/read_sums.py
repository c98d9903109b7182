"""Sums by slice of what :mod:`.reads` puts together: processes, clients, batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import polars as pl

from slurm_io.analysis.facts import mapping, whole
from slurm_io.analysis.in_parts import in_parts
from slurm_io.analysis.inputs import StoreView, Tables
from slurm_io.analysis.read_counts import client_rows, share_out
from slurm_io.analysis.read_slices import Slices, main_loaders
from slurm_io.analysis.read_sources import ReadMounts, wire_bytes
from slurm_io.analysis.timeline import Process, Timeline

_NS = 1_000_000_000
_WARM_UP_BATCHES = 20
_WARM_UP_SHARE = 0.1

Key = tuple[str, int]
"""(node, slice)."""


@dataclass(frozen=True)
class Count:
    """Counters of one node's readers in one slice. `refused_share`: of their time, without I/O."""

    asked: float
    read: float
    majflt: float
    cpu_s: float
    refused_share: float


def count_processes(
    rows: pl.DataFrame, slices: Slices, nodes: Mapping[int, str], every: int
) -> dict[Key, Count]:
    """By node and slice. `rows`: of :mod:`.read_counts` with their owner."""
    shared = _named(share_out(rows, slices.pieces), nodes)

    def total(name: str) -> pl.Expr:
        return (pl.col(name) * pl.col("weight")).sum() * every

    refused = pl.col("interval_ns").filter(pl.col("rchar_bytes").is_null()).sum()
    sums = shared.group_by("name", "slice").agg(
        total("rchar_bytes").alias("asked"),
        total("read_bytes").alias("read"),
        total("majflt").alias("majflt"),
        (total("cpu_ns") / _NS).alias("cpu_s"),
        (refused / pl.col("interval_ns").sum()).alias("refused_share"),
    )
    return {
        (name, number): Count(*values) for name, number, *values in sums.sort("name").iter_rows()
    }


def count_clients(
    tables: Tables,
    slices: Slices,
    nodes: Mapping[int, str],
    where: Mapping[str, ReadMounts],
    every: int,
) -> dict[str, dict[str, dict[int, float] | None]]:
    """node -> mount -> bytes on the wire by slice; those of the whole node.

    Slices of the ranks of a node hardly differ: its first one's count.
    """
    rows = client_rows(tables, every).with_columns(pl.col("node").cast(pl.String))
    found = {}
    for name, mounts in where.items():
        owners = [owner for owner, node in sorted(nodes.items()) if node == name]
        if not owners:
            continue
        mine = rows.filter(pl.col("node") == name).with_columns(
            pl.lit(owners[0], pl.Int32).alias("owner")
        )
        shared = share_out(mine, slices.pieces)
        scaled = shared.with_columns(pl.col("weight") * every)
        found[name] = wire_bytes(scaled, mounts, tables.store.nodes[name])
    return found


def count_waits(rows: pl.DataFrame, timeline: Timeline, slices: Slices) -> pl.DataFrame:
    """(slice, batches, waits, wait_s): batches of the main loaders by where they began.

    `wait_s` and `waits` are of those that are neither the first of a pass nor the job's warm-up
    (20 batches, of a short pass a tenth).
    """
    needed = rows.select("proc", "loader", "start", "first", "lost_s")
    pieces = slices.pieces.sort("start").with_columns(pl.col("start").alias("piece"))
    placed = in_parts(
        needed,
        partial(_in_slices, loaders=main_loaders(timeline), pieces=pieces.drop("start")),
    )
    place = pl.int_range(pl.len()).over("proc")
    warm_up = pl.min_horizontal(
        pl.lit(_WARM_UP_BATCHES), (pl.len().over("proc") * _WARM_UP_SHARE).ceil()
    )
    begun = placed.filter(pl.col("slice") == 0).with_columns(counts=place >= warm_up)
    later = placed.filter(pl.col("slice") > 0).with_columns(counts=pl.lit(True))
    marked = pl.concat([begun, later]).with_columns(pl.col("counts") & ~pl.col("first"))
    return marked.group_by("slice").agg(
        pl.len().alias("batches"),
        pl.col("counts").sum().alias("waits"),
        pl.col("lost_s").filter("counts").sum().alias("wait_s"),
    )


def _in_slices(rows: pl.DataFrame, loaders: pl.DataFrame, pieces: pl.DataFrame) -> pl.DataFrame:
    """(proc, slice, first, lost_s) of the batches of `loaders` that began in a slice."""
    mine = rows.join(loaders, on=["proc", "loader"], how="semi", maintain_order="left")
    # Rows come by process and time: within each process they are in order.
    placed = mine.join_asof(
        pieces, left_on="start", right_on="piece", by_left="proc", by_right="owner",
        strategy="backward", check_sortedness=False,
    )  # fmt: skip
    inside = pl.col("start") < pl.col("end")
    return placed.filter(inside).select("proc", "slice", "first", "lost_s")


def seen_shares(
    rows: pl.DataFrame, slices: Slices, timeline: Timeline, store: StoreView, every: int
) -> dict[int, float]:
    """Slice -> share of the readers' time that was looked at; {} where it cannot be told."""
    wanted = {process.proc: _readers_of(process, store) for process in timeline.processes}
    if not wanted or None in wanted.values():
        return {}
    readers = pl.DataFrame(
        list(wanted.items()),
        schema={"owner": pl.Int32, "readers": pl.Int64},
        orient="row",
    )
    length = (pl.col("end") - pl.col("start")) * pl.col("readers")
    expected = slices.pieces.join(readers, on="owner").group_by("slice").agg(length.sum())
    workers = [process.proc for process in timeline.processes if process.has_workers]
    own = pl.when(pl.col("owner").is_in(workers)).then(pl.lit("worker")).otherwise(pl.lit("rank"))
    shared = share_out(rows.filter(pl.col("role") == own), slices.pieces)
    watched = shared.group_by("slice").agg(
        ((pl.col("interval_ns") * pl.col("weight")).sum() * every).alias("watched")
    )
    both = expected.join(watched, on="slice", how="left").fill_null(0)
    return {
        number: min(1.0, watched_ns / length_ns)
        for number, length_ns, watched_ns in both.select("slice", "end", "watched").iter_rows()
        if length_ns > 0
    }


def _readers_of(process: Process, store: StoreView) -> int | None:
    """How many processes read for it: its workers as its loader said, without workers itself."""
    if not process.has_workers:
        return 1
    loaders = store.nodes[process.node].meta.get("loaders")
    told = [
        whole(mapping(each).get("num_workers"))
        for each in (loaders if isinstance(loaders, list) else [])
        if mapping(each).get("pid") == process.pid
    ]
    return max((number for number in told if number), default=None)


def _named(rows: pl.DataFrame, nodes: Mapping[int, str]) -> pl.DataFrame:
    name = pl.col("owner").replace_strict(dict(nodes), return_dtype=pl.String)
    return rows.with_columns(name.alias("name"))
