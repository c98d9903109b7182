"""The file system's own client as a witness: latency above its baseline, or requests that hang.

Looked at are rows of the mounts that were waited for; where such a mount has no rows of its own
(one set of counters for several mounts, or for all), rows of its type; GPUDirect Storage (driver
nvidia-fs), which counts all mounts together, always. Of each source and class the time that it
tells: from issue to completion (exe_ms), else from sending to reply (rtt_ms, all that Lustre's osc
and mdc have). Writes are left out. A class ``any`` counts where it has times: Weka's ioctl, as
which GPUDirect Storage reads come. A source without times is no evidence, neither of slow nor of
fast.

While a server hangs nothing completes, and no mean exists: then requests in flight without a single
completed one say it.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from slurm_io.analysis.causes import Causes
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.moods import in_moods, latency_contrast, most_stalled
from slurm_io.analysis.read_sources import ReadMounts
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.analysis.thresholds import Witness as Limits
from slurm_io.analysis.witness import Witness

_NAME, _METRIC = "file system client", "client_ms"
_COLUMNS = ("mount", "fstype", "source", "op_class", "ops", "rtt_ms", "exe_ms", "inflight")
_KEYS = ["node", "mount", "source", "op_class"]
_ALL_MOUNTS_SOURCES = ("nvidia-fs",)


def hear_client(
    tables: Tables,
    causes: Causes,
    moods: pl.DataFrame,
    where: Mapping[str, ReadMounts],
    thresholds: Thresholds,
) -> Witness:
    """Latency first, then hanging requests; `agrees` None where no source tells either."""
    rows = in_moods(tables, "fsclient", _COLUMNS, causes, moods)
    rows = rows.filter(pl.col("op_class").is_in(["read", "meta", "any"]))
    rows = of_waited_mounts(rows.with_columns(pl.col("node").cast(pl.String)), where)
    limit = thresholds.witness
    limits = (limit.client_ratio, limit.client_floor_ms, limit.client_limit_ms)
    timed = rows.with_columns(pl.coalesce("exe_ms", "rtt_ms").alias("ms"))
    latency = latency_contrast(_NAME, _METRIC, timed, _KEYS, "ms", limits)
    if latency.agrees:
        return latency
    hanging = _hanging(rows, moods, limit)
    if hanging is not None:
        return hanging
    if latency.agrees is None and not rows.is_empty():
        sources = ", ".join(sorted(rows["source"].drop_nulls().unique().to_list()))
        return Witness(_NAME, None, f"{sources} told no latencies while data was awaited", _METRIC)
    return latency


def of_waited_mounts(rows: pl.DataFrame, where: Mapping[str, ReadMounts]) -> pl.DataFrame:
    """Of `rows` (node as String, mount, fstype, source, ...) those that tell of the mounts that
    were waited for; on a node where nobody waited for any, all."""
    waited = pl.DataFrame(
        [(node, *pair) for node, one in where.items() if one.seen for pair in one.mounts],
        schema={"node": pl.String, "mount": pl.String, "fstype": pl.String},
        orient="row",
    )
    names = waited.select("node", "mount").unique().with_columns(pl.lit(True).alias("exact"))
    types = waited.select("node", "fstype").unique().with_columns(pl.lit(True).alias("alike"))
    marked = rows.join(names, on=["node", "mount"], how="left").join(
        types, on=["node", "fstype"], how="left"
    )
    exact, alike = pl.col("exact").fill_null(False), pl.col("alike").fill_null(False)
    by_type = alike & ~exact.any().over("node", "fstype")
    unknown = ~pl.col("node").is_in(waited["node"].unique().to_list())
    kept = exact | by_type | unknown | pl.col("source").is_in(_ALL_MOUNTS_SOURCES)
    return marked.filter(kept).drop("exact", "alike")


def _hanging(rows: pl.DataFrame, moods: pl.DataFrame, limit: Limits) -> Witness | None:
    """Requests in flight and none completed."""
    stuck = rows.filter((pl.col("inflight") > 0) & (pl.col("ops") == 0))
    worst = most_stalled(stuck, moods, _KEYS, limit)
    if worst is None:
        return None
    text = (
        f"{worst['mount']} {worst['source']} {worst['op_class']} on {worst['node']}: requests in "
        f"flight and none completed in {worst['stalled']} of {worst['all_stalled']} stalled seconds"
    )
    return Witness(_NAME, True, text, "hanging_share", worst["share"], limit.hanging_share)
