"""Each batch's lost time by cause: the rows of the timeline joined with the wait samples.

The time a batch waited in each second is exact (hook); the split of that second comes from the
samples (:mod:`.shares`). Columns added to the rows: ``l_<cause>`` in seconds for every cause of
:data:`.samples.CAUSES`, and ``storage_low_s``, ``storage_high_s`` (object store included) under
the bounds of :mod:`.exposure`.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.exposure import expose
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.queueing import relieve
from slurm_io.analysis.samples import CAUSES, assign, explain, read_samples, thinning
from slurm_io.analysis.seconds import cut_waits, phases, with_second
from slurm_io.analysis.shares import spread
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.analysis.timeline import Timeline


@dataclass(frozen=True)
class Causes:
    """`rows`: batches with their losses. `samples`: wait samples with proc and sec, all phases.
    `evidence`: passes by cause, proc and second. `seconds`: (node, proc, sec, wait_s, storage_s).
    `phases`: where the seconds of each node begin; `every`: only each so many-th was looked at.
    """

    rows: pl.DataFrame
    samples: pl.DataFrame
    evidence: pl.DataFrame
    seconds: pl.DataFrame
    phases: pl.DataFrame
    every: int


def find_causes(tables: Tables, timeline: Timeline, thresholds: Thresholds) -> Causes:
    """Split the lost time of every batch."""
    rows = expose(timeline.rows, thresholds.loader).with_row_index("row")
    every = thinning(sum(process.window_s for process in timeline.processes), thresholds.sampling)
    samples = read_samples(tables, every)
    borders = phases(samples, rows)
    placed = with_second(assign(samples, rows), borders)
    loaders = rows.group_by("proc", "loader").agg(pl.col("workers").any())
    evidence = relieve(explain(placed, loaders), placed, tables, every)
    pieces = cut_waits(rows, borders)
    waits = pieces.group_by("proc", "sec").agg(pl.col("part_s").sum().alias("wait_s"))
    split = spread(waits, evidence, thresholds.sampling)
    shares = _row_shares(pieces, split)
    seconds = _seconds(split, rows)
    return Causes(_with_losses(rows, shares), placed, evidence, seconds, borders, every)


def _row_shares(pieces: pl.DataFrame, split: pl.DataFrame) -> pl.DataFrame:
    """(row, p_<cause>…): the mean of its seconds, weighted by the time waited in each.

    A first batch borrows nothing from other batches: what its own seconds do not show is unknown.
    """
    joined = pieces.join(split.drop("wait_s"), on=["proc", "sec"], how="left")
    blank = pl.col("first") & (pl.col("passes").fill_null(0) == 0)
    weighted = joined.with_columns(
        (
            pl.when(blank).then(1.0 if cause == "unknown" else 0.0).otherwise(pl.col(f"p_{cause}"))
            * pl.col("part_s")
        ).alias(f"p_{cause}")
        for cause in CAUSES
    )
    sums = weighted.group_by("row").agg(pl.col("part_s", *(f"p_{cause}" for cause in CAUSES)).sum())
    some = pl.col("part_s") > 0
    return sums.select(
        "row",
        *(
            pl.when(some).then(pl.col(f"p_{cause}") / pl.col("part_s")).otherwise(0.0)
            .alias(f"p_{cause}")
            for cause in CAUSES
        ),
    )  # fmt: skip


def _with_losses(rows: pl.DataFrame, shares: pl.DataFrame) -> pl.DataFrame:
    joined = _without_handover(rows.join(shares, on="row", how="left", maintain_order="left"))
    storage = pl.col("p_storage") + pl.col("p_net")
    return joined.with_columns(
        *((pl.col("lost_s") * pl.col(f"p_{cause}")).alias(f"l_{cause}") for cause in CAUSES),
        (pl.col("lost_low_s") * storage).alias("storage_low_s"),
        (pl.col("lost_high_s") * storage).alias("storage_high_s"),
    ).drop(*(f"p_{cause}" for cause in CAUSES))


def _without_handover(rows: pl.DataFrame) -> pl.DataFrame:
    """p_<cause> of the wait without its hand-over, from p_<cause> of the whole wait.

    Handing a batch over is CPU work (the worker collates and pickles, the rank unpickles), and it
    was sampled like the rest of the wait. So it is taken out of the CPU's part first: taken out of
    all causes alike it would count as CPU once more, in the storage's place.
    """
    rest = pl.col("wait_s") - pl.col("handover_s")
    cpu_s = pl.col("p_cpu") * pl.col("wait_s")
    short_s = (pl.col("handover_s") - cpu_s).clip(0)  # what the CPU's part cannot cover
    others_s = pl.col("wait_s") - cpu_s
    scale = pl.when(others_s > 0).then(1 - short_s / others_s).otherwise(0.0)
    hit = (pl.col("handover_s") > 0) & (rest > 0)
    cpu = (cpu_s - pl.col("handover_s")).clip(0) / rest
    return rows.with_columns(
        pl.when(hit)
        .then(cpu if cause == "cpu" else pl.col(f"p_{cause}") * pl.col("wait_s") * scale / rest)
        .otherwise(pl.col(f"p_{cause}"))
        .alias(f"p_{cause}")
        for cause in CAUSES
    )


def _seconds(split: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    nodes = rows.select("proc", "node").unique()
    storage = pl.col("wait_s") * (pl.col("p_storage") + pl.col("p_net"))
    return split.join(nodes, on="proc").select(
        "node", "proc", "sec", "wait_s", storage.alias("storage_s")
    )
