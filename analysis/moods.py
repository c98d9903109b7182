"""Stalled and quiet seconds of each node, and what a counter said in the ones and the others.

A counter is compared with itself: what it showed while a process was kept waiting by storage, with
what it showed while none was.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from slurm_io.analysis.causes import Causes
from slurm_io.analysis.inputs import Keep, Tables
from slurm_io.analysis.thresholds import Witness as Limits
from slurm_io.analysis.witness import Witness

_STALLED_S = 0.2  # storage wait in one second of one process that makes the second a stalled one
_QUIET_S = 0.05
_CLEAR_ROWS = 5  # stalled ones, before a series that is not the slowest speaks
_ENOUGH_ROWS = 3_000_000  # read of a table: medians and shares of a month need no more
_ROWS_A_SECOND = {"block": 8, "fsclient": 8}  # about, on a node; other tables have one


def moods_of(tables: Tables, causes: Causes) -> pl.DataFrame:
    """As :func:`find_moods`, computed once for these `causes`."""
    known = tables.kept.get("moods")
    if known is None or known[0] is not causes:
        known = tables.kept["moods"] = (causes, find_moods(causes))
    found: pl.DataFrame = known[1]
    return found


def find_moods(causes: Causes) -> pl.DataFrame:
    """(node, sec, mood): stalled or quiet; what lies between is left out."""
    by_second = _longest_of_node(causes.seconds)
    mood = (
        pl.when(pl.col("storage_s") >= _STALLED_S)
        .then(pl.lit("stalled"))
        .when(pl.col("storage_s") <= _QUIET_S)
        .then(pl.lit("quiet"))
    )
    return by_second.with_columns(mood.alias("mood")).drop_nulls("mood")


def _longest_of_node(seconds: pl.DataFrame) -> pl.DataFrame:
    """(node, sec, storage_s) of the process that waited longest. With one process on each node
    there is nothing to choose: a month's seconds are millions, and grouping them is dear."""
    told = seconds.select("node", "sec", "storage_s")
    if seconds.select("node", "proc").unique().height == seconds["node"].n_unique():
        return told
    return told.group_by("node", "sec").agg(pl.col("storage_s").max())


def in_moods(
    tables: Tables, table: str, columns: tuple[str, ...], causes: Causes, moods: pl.DataFrame
) -> pl.DataFrame:
    """Rows of a 1 Hz table with `sec` and the mood of their second.

    Seconds without a mood are left out before their rows cost memory. Of a long job those of evenly
    spread seconds are read, and each row stands for `every` of its kind: memory stays bounded.
    """
    every = _thinning(causes, table)
    wanted = _seconds_wanted(causes, moods)
    raw = tables.frame(table, ("mono_ns", "interval_ns", *columns), every, wanted)
    raw = raw.drop_nulls(["mono_ns", "interval_ns"]).with_columns(pl.lit(every).alias("every"))
    middle = pl.col("mono_ns") - pl.col("interval_ns") // 2 - pl.col("border")
    placed = raw.join(causes.phases, on="node").with_columns((middle // 1_000_000_000).alias("sec"))
    return placed.join(moods, on=["node", "sec"], how="inner")


def _thinning(causes: Causes, table: str) -> int:
    """Each how many-th second is enough; of those, where any is left out, in which samples were
    looked at too, so that the two can be joined."""
    spans = causes.seconds.group_by("node").agg(pl.col("sec").max() - pl.col("sec").min())
    needed = int(spans["sec"].sum()) * _ROWS_A_SECOND.get(table, 1) / _ENOUGH_ROWS
    return 1 if needed <= 1 else causes.every * max(1, round(needed / causes.every))


def _seconds_wanted(causes: Causes, moods: pl.DataFrame) -> Keep:
    """Rows in seconds that have a mood."""
    borders = {str(node): border for node, border in causes.phases.select("node", "border").rows()}
    seconds = {
        str(node): rows["sec"].implode()
        for (node,), rows in moods.partition_by("node", as_dict=True).items()
    }

    def keep(node: str, clocks: pl.DataFrame) -> pl.Series:
        if node not in seconds or node not in borders:
            return pl.repeat(False, clocks.height, dtype=pl.Boolean, eager=True)
        middle = clocks["mono_ns"] - clocks["interval_ns"] // 2 - borders[node]
        wanted: pl.Series = (middle // 1_000_000_000).is_in(seconds[node]).fill_null(False)
        return wanted

    return keep


def latency_contrast(
    name: str,
    metric: str,
    rows: pl.DataFrame,
    keys: list[str],
    column: str,
    limits: tuple[float, float, float],
) -> Witness:
    """The worst device or mount: its median in stalled seconds over that in quiet ones. One that is
    above its own baseline goes before one that is always slower: of two mounts that are waited for
    the second says nothing about the first.

    `limits`: ratio, floor (ms), and what is too much whatever the quiet seconds show (ms).
    """
    ratio, floor_ms, limit_ms = limits
    medians = rows.drop_nulls(column).group_by(keys).agg(
        *(pl.col(column).filter(pl.col("mood") == mood).median().alias(mood)
          for mood in ("stalled", "quiet")),
        (pl.col("mood") == "stalled").sum().alias("rows"),
    )  # fmt: skip
    much = pl.col("stalled") >= pl.max_horizontal(pl.lit(floor_ms), ratio * pl.col("quiet"))
    clear = (much & pl.col("quiet").is_not_null() & (pl.col("rows") >= _CLEAR_ROWS)).alias("clear")
    down = [True, True, *(False for _ in keys)]
    medians = medians.drop_nulls("stalled").with_columns(clear)
    medians = medians.sort("clear", "stalled", *keys, descending=down)
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
    """The device or mount whose `rows` (of :func:`in_moods`) lie in most of its node's stalled
    seconds: its keys with stalled, all_stalled and share. None where none has enough of them, or as
    many in quiet ones."""
    node = pl.col("node").cast(pl.String)
    both = ("stalled", "quiet")
    seconds = moods.group_by(node).agg((pl.col("mood") == mood).sum().alias(f"all_{mood}")
                                       for mood in both)  # fmt: skip
    counts = (
        rows.with_columns(node)
        .group_by(keys)
        .agg(
            (pl.col("sec").filter(pl.col("mood") == mood).n_unique() * pl.col("every").max()).alias(
                mood
            )
            for mood in both
        )
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
