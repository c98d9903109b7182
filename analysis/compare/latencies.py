"""Read latencies of the mounts that a job waited for: the file system's client, or the devices."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.devices import leaf_rows, leaves_of
from slurm_io.analysis.picture import Picture

_CLIENT = ("mono_ns", "ts_ns", "mount", "source", "op_class", "ops", "rtt_ms", "exe_ms")
_BLOCK = ("mono_ns", "ts_ns", "device", "role", "r_s", "interval_ns", "r_await")
_MOST_MOUNTS = 2


@dataclass(frozen=True)
class Latency:
    """Mean latency of reads of one mount. `rows`: y = operations x ms, x = operations, progress.

    `source`: which counter, the same words for the same counter in every job.
    """

    mount: str
    source: str
    rows: pl.DataFrame


def read_latencies(picture: Picture) -> tuple[Latency, ...]:
    """Of the mounts with most storage samples; nothing where no source tells a latency."""
    mounts = [one.mount for one in picture.where.mounts[:_MOST_MOUNTS]]
    client = picture.tables.frame("fsclient", _CLIENT, picture.causes.every)
    found = [latency for mount in mounts for latency in _of_client(client, mount)]
    told = {latency.mount for latency in found}
    rest = [mount for mount in mounts if mount not in told]
    if rest:
        block = picture.tables.frame("block", _BLOCK, picture.causes.every)
        found += [latency for mount in rest for latency in _of_block(picture, block, mount)]
    return tuple(found)


def _of_client(rows: pl.DataFrame, mount: str) -> list[Latency]:
    here = rows.filter(
        (pl.col("mount") == mount) & pl.col("op_class").is_in(["read", "any"])
    ).with_columns(pl.coalesce("exe_ms", "rtt_ms").alias("ms"))
    here = here.filter(pl.col("ms").is_not_null() & (pl.col("ops") > 0))
    return [
        Latency(mount, f"client ({source}, {op_class})", _weighed(part, pl.col("ops")))
        for (source, op_class), part in here.group_by("source", "op_class", maintain_order=True)
    ]


def _of_block(picture: Picture, rows: pl.DataFrame, mount: str) -> list[Latency]:
    known = [node for node, view in picture.store.nodes.items() if leaves_of(view).get(mount)]
    here = leaf_rows(rows, picture.store, [(node, mount) for node in known])
    here = here.filter(pl.col("node").is_in(known))
    here = here.filter(pl.col("r_await").is_not_null() & (pl.col("r_s") > 0))
    if here.is_empty():
        return []
    reads = pl.col("r_s") * pl.col("interval_ns") / 1e9
    return [Latency(mount, "block devices (r_await)", _weighed(here, reads, "r_await"))]


def _weighed(rows: pl.DataFrame, operations: pl.Expr, latency: str = "ms") -> pl.DataFrame:
    return rows.sort("ts_ns").select(
        (operations * pl.col(latency)).cast(pl.Float64).alias("y"),
        operations.cast(pl.Float64).alias("x"),
        pl.int_range(1, pl.len() + 1).cast(pl.Float64).alias("progress"),
    )
