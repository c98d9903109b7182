"""Stalled and quiet seconds of each node, and what a counter said in the ones and the others.

A counter is compared with itself: what it showed while a process was kept waiting by storage, with
what it showed while none was.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from slurm_io.analysis.causes import Causes
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.thresholds import Witness as Limits
from slurm_io.analysis.witness import Witness

_STALLED_S = 0.2  # storage wait in one second of one process that makes the second a stalled one
_QUIET_S = 0.05


def find_moods(causes: Causes) -> pl.DataFrame:
    """(node, sec, mood): stalled or quiet; what lies between is left out."""
    by_second = causes.seconds.group_by("node", "sec").agg(pl.col("storage_s").max())
    mood = (
        pl.when(pl.col("storage_s") >= _STALLED_S)
        .then(pl.lit("stalled"))
        .when(pl.col("storage_s") <= _QUIET_S)
        .then(pl.lit("quiet"))
    )
    return by_second.with_columns(mood.alias("mood")).drop_nulls("mood")


def in_moods(
    tables: Tables, table: str, columns: tuple[str, ...], causes: Causes, moods: pl.DataFrame
) -> pl.DataFrame:
    """Rows of a 1 Hz table with `sec` and the mood of their second."""
    raw = tables.frame(table, ("mono_ns", "interval_ns", *columns))
    raw = raw.drop_nulls(["mono_ns", "interval_ns"])
    middle = pl.col("mono_ns") - pl.col("interval_ns") // 2 - pl.col("border")
    placed = raw.join(causes.phases, on="node").with_columns((middle // 1_000_000_000).alias("sec"))
    return placed.join(moods, on=["node", "sec"], how="inner")


def latency_contrast(
    name: str,
    metric: str,
    rows: pl.DataFrame,
    keys: list[str],
    column: str,
    limits: tuple[float, float, float],
) -> Witness:
    """The worst device or mount: its median in stalled seconds over that in quiet ones.

    `limits`: ratio, floor (ms), and what is too much whatever the quiet seconds show (ms).
    """
    ratio, floor_ms, limit_ms = limits
    medians = rows.drop_nulls(column).group_by(keys).agg(
        pl.col(column).filter(pl.col("mood") == mood).median().alias(mood)
        for mood in ("stalled", "quiet")
    )  # fmt: skip
    medians = medians.drop_nulls("stalled").sort("stalled", descending=True)
    if medians.is_empty():
        return Witness(name, None, "no latencies were recorded while data was awaited", metric)
    worst = medians.row(0, named=True)
    stalled, quiet = worst["stalled"], worst["quiet"]
    above = quiet is not None and stalled >= max(floor_ms, ratio * quiet)
    where = " ".join(str(worst[key]) for key in keys if key != "node")
    usual = f", {quiet:.1f} ms in quiet ones" if quiet is not None else ""
    text = f"{where} on {worst['node']}: median {stalled:.1f} ms in stalled seconds{usual}"
    threshold = limit_ms if quiet is None else max(floor_ms, ratio * quiet)
    return Witness(name, above or stalled >= limit_ms, text, metric, stalled, threshold)


def most_stalled(
    rows: pl.DataFrame, moods: pl.DataFrame, keys: list[str], limit: Limits
) -> dict[str, Any] | None:
    """The device or mount whose `rows` lie in most of its node's stalled seconds: its keys with
    stalled, all_stalled and share. None where none has enough of them, or as many in quiet ones."""
    node = pl.col("node").cast(pl.String)
    both = ("stalled", "quiet")
    seconds = moods.group_by(node).agg((pl.col("mood") == mood).sum().alias(f"all_{mood}")
                                       for mood in both)  # fmt: skip
    counts = (
        rows.with_columns(node)
        .group_by(keys)
        .agg(pl.col("sec").filter(pl.col("mood") == mood).n_unique().alias(mood) for mood in both)
    )
    shares = counts.join(seconds, on="node").with_columns(
        (pl.col("stalled") / pl.col("all_stalled")).alias("share"),
        (pl.col("quiet") / pl.col("all_quiet").clip(1)).alias("usual"),
    )
    found = shares.filter(
        (pl.col("stalled") >= limit.hanging_seconds)
        & (pl.col("share") >= limit.hanging_share)
        & (pl.col("share") >= limit.client_ratio * pl.col("usual"))
    ).sort("share", *keys, descending=[True, *(False for _ in keys)])
    return None if found.is_empty() else found.row(0, named=True)
