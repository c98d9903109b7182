"""The seconds of a node's clock: waits of known length cut at second borders.

Rows of the sampler stand at the end of the interval they cover, all on one grid with the same
phase, so a second is numbered from the phase of the node's first row.
"""

from __future__ import annotations

from functools import partial

import polars as pl

from slurm_io.analysis.batches import NS
from slurm_io.analysis.in_parts import in_parts

_SECONDS = 2**40  # more than any clock has counted


def with_second(rows: pl.DataFrame, phases: pl.DataFrame) -> pl.DataFrame:
    """Add `sec` to sampler rows (mono_ns, interval_ns, node): the second their middle lies in."""
    middle = pl.col("mono_ns") - pl.col("interval_ns") // 2 - pl.col("border")
    placed = rows.join(phases, on="node", how="left", maintain_order="left")
    placed = placed.filter(pl.col("border").is_not_null())
    return placed.with_columns((middle // NS).alias("sec")).drop("border")


def phases(ticks: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """(node, border): where on each node a second begins, 0 on a node without sampler rows."""
    first = ticks.group_by("node").agg((pl.col("mono_ns").min() % NS).alias("border"))
    return nodes.select("node").unique().join(first, on="node", how="left").with_columns(
        pl.col("border").fill_null(0)
    )  # fmt: skip


def cut_waits(rows: pl.DataFrame, phases: pl.DataFrame) -> pl.DataFrame:
    """(row, proc, sec, part_s, first, second): each wait of `rows` cut at second borders.

    In the order of the rows, which stand by process and time; `second` numbers the (proc, sec) as
    they come, from 0. Both are marked as sorted, which makes sums by them cheap.
    """
    pieces = in_parts(rows, partial(_cut, phases=phases)).set_sorted("row")
    return pieces.with_columns(_numbered(pieces).alias("second"))


def _cut(rows: pl.DataFrame, phases: pl.DataFrame) -> pl.DataFrame:
    placed = rows.join(phases, on="node", how="left", maintain_order="left").select(
        "row",
        "proc",
        "first",
        (pl.col("start") - pl.col("border")).alias("from"),
        (pl.col("end") - pl.col("border")).alias("to"),
    )
    last = pl.max_horizontal(pl.col("from"), pl.col("to") - 1) // NS
    placed = placed.with_columns(
        pl.int_ranges(pl.col("from") // NS, last + 1, dtype=pl.Int64).alias("sec")
    ).explode("sec")
    begin = pl.max_horizontal(pl.col("from"), pl.col("sec") * NS)
    finish = pl.min_horizontal(pl.col("to"), (pl.col("sec") + 1) * NS)
    part = (finish - begin).clip(0) / NS
    return placed.select("row", "proc", "sec", part.alias("part_s"), "first")


def second_key() -> pl.Expr:
    """(proc, sec) in one number that sorts like them: joins and groups by one are much cheaper."""
    return pl.col("proc").cast(pl.Int64) * _SECONDS + pl.col("sec")


def _numbered(pieces: pl.DataFrame) -> pl.Series:
    """Number of each (proc, sec). Waits of one process do not overlap, so they come in order and a
    count of changes is enough; a damaged store's may not."""
    key = pieces.select(second_key()).to_series()
    return key.rle_id().set_sorted() if key.is_sorted() else key.rank("dense").cast(pl.UInt32) - 1
