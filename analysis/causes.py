"""Each batch's lost time by cause: the rows of the timeline joined with the wait samples.

The time a batch waited in each second is exact (hook); the split of that second comes from the
samples (:mod:`.shares`). Columns added to the rows: ``l_<cause>`` in seconds for every cause of
:data:`.samples.CAUSES`, and ``storage_low_s``, ``storage_high_s`` (object store included) under
the bounds of :mod:`.exposure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.batches import NS
from slurm_io.analysis.exposure import expose
from slurm_io.analysis.gpu_doubt import doubt
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.own_cpu import own_cpu, raise_to_own_cpu
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
    rows = timeline.rows.with_row_index("row")
    every = thinning(sum(process.window_s for process in timeline.processes), thresholds.sampling)
    samples = read_samples(tables, every)
    borders = phases(samples, rows)
    placed = with_second(assign(samples, rows), borders)
    loaders = rows.group_by("proc", "loader").agg(pl.col("workers").any())
    evidence = explain(_of_training(placed, timeline, borders), loaders)
    own = own_cpu(rows, tables)
    evidence = relieve(evidence, placed, loaders, own, tables, every)
    pieces = cut_waits(rows, borders)
    waits = pieces.group_by("second", maintain_order=True).agg(
        pl.first("proc", "sec"), pl.col("part_s").sum().alias("wait_s")
    )
    pieces = pieces.drop("proc", "sec")
    split = spread(waits.sort("second").drop("second"), evidence, thresholds.sampling)
    shares = raise_to_own_cpu(_row_shares(pieces, split), rows, own)
    seconds = _seconds(split, rows)
    del split  # of a long job this is much memory
    rows = doubt(expose(rows, thresholds.loader), tables, timeline)
    shares = shares.join(
        _handed_near(pieces, rows), on="row", how="left", maintain_order="left"
    ).set_sorted("row")
    return Causes(_with_losses(rows, shares), placed, evidence, seconds, borders, every)


def _of_training(samples: pl.DataFrame, timeline: Timeline, borders: pl.DataFrame) -> pl.DataFrame:
    """Without the second in which training began and those before it: the wait for the very first
    batch is start-up, and its samples are no evidence of the few short waits behind it."""
    border_of = {str(node): border for node, border in borders.select("node", "border").rows()}
    opens = pl.DataFrame(
        [(one.proc, (one.opens - border_of[one.node]) // NS) for one in timeline.processes
         if one.node in border_of],
        schema={"proc": pl.Int32, "opened": pl.Int64},
        orient="row",
    )  # fmt: skip
    placed = samples.join(opens, on="proc", how="left", maintain_order="left")
    return placed.filter(pl.col("sec") > pl.col("opened")).drop("opened")


def _row_shares(pieces: pl.DataFrame, split: pl.DataFrame) -> pl.DataFrame:
    """(row, p_<cause>…): the mean of its seconds, weighted by the time waited in each.

    A first batch borrows nothing from other batches: what its own seconds do not show is unknown.
    """
    seen = [cause for cause in CAUSES if cause == "unknown" or (split[f"p_{cause}"] != 0).any()]
    of_second = split.select("passes", *(f"p_{cause}" for cause in seen))[pieces["second"]]
    joined = pl.concat([pieces, of_second], how="horizontal")
    blank = pl.col("first") & (pl.col("passes").fill_null(0) == 0)
    weighted = joined.select(
        "row",
        "part_s",
        *(
            (
                pl.when(blank)
                .then(1.0 if cause == "unknown" else 0.0)
                .otherwise(pl.col(f"p_{cause}"))
                * pl.col("part_s")
            ).alias(f"p_{cause}")
            for cause in seen
        ),
    )
    sums = weighted.group_by("row", maintain_order=True).agg(pl.all().sum())
    some = pl.col("part_s") > 0
    part = {cause: pl.lit(0.0) for cause in CAUSES}  # one value is no column in memory
    for cause in seen:
        part[cause] = pl.when(some).then(pl.col(f"p_{cause}") / pl.col("part_s")).otherwise(0.0)
    return sums.select(
        "row", *(share.alias(f"p_{cause}") for cause, share in part.items())
    ).set_sorted("row")


def _handed_near(pieces: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """(row, handed): the part of all that was waited in a row's seconds that was hand-over.

    The samples of a second are those of all its waits. Where one batch is late and five are only
    handed over, theirs are among them, and taking off the late one's own hand-over is not enough.
    """
    part = pl.when(pl.col("wait_s") > 0).then(pl.col("handover_s") / pl.col("wait_s"))
    parts = rows.select(part.fill_null(0.0)).to_series()
    each = pieces.with_columns(parts.gather(pieces["row"]).alias("part"))
    waited_s = pl.col("part_s").sum()
    handed = (pl.col("part") * pl.col("part_s")).sum() / waited_s
    seconds = each.group_by("second", maintain_order=True).agg(handed.alias("handed"))
    by_second = seconds.sort("second")["handed"]
    near = each.with_columns(by_second.gather(each["second"]).alias("handed"))
    near = near.with_columns(pl.when(pl.col("part_s") > 0).then("handed"))
    mean = (pl.col("handed") * pl.col("part_s")).sum() / waited_s
    handed = pl.when(waited_s > 0).then(mean).otherwise(0.0).alias("handed")
    return near.group_by("row", maintain_order=True).agg(handed).set_sorted("row")


def _with_losses(rows: pl.DataFrame, shares: pl.DataFrame) -> pl.DataFrame:
    seen = [cause for cause in CAUSES if (shares[f"p_{cause}"] != 0).any()]
    joined = rows.join(shares, on="row", how="left", maintain_order="left")
    joined = _without_handover(joined, seen)
    storage = pl.col("p_storage") + pl.col("p_net")
    lost = {cause: pl.lit(0.0) for cause in CAUSES}  # one value is no column in memory
    lost |= {cause: pl.col("lost_s") * pl.col(f"p_{cause}") for cause in seen}
    return joined.with_columns(
        *(seconds.alias(f"l_{cause}") for cause, seconds in lost.items()),
        (pl.col("lost_low_s") * storage).alias("storage_low_s"),
        (pl.col("lost_high_s") * storage).alias("storage_high_s"),
    ).drop("row", "handed", *(f"p_{cause}" for cause in CAUSES))


def _without_handover(rows: pl.DataFrame, seen: Sequence[str] = CAUSES) -> pl.DataFrame:
    """p_<cause> of the waits without hand-over, from p_<cause> of whole waits; of causes in `seen`,
    for the others' are 0.

    Handing a batch over is work of the worker (it collates and pickles) and of the rank (it
    unpickles while no worker may have anything to do), and it was sampled like the rest of the
    wait. So it is taken out of the CPU's and the pipeline's parts first: taken out of all causes
    alike it would count as one of those once more, in the storage's place.
    """
    cheap = pl.col("p_cpu") + pl.col("p_pipeline")
    others = 1 - cheap
    short = (pl.col("handed") - cheap).clip(0)  # what those two cannot cover
    kept = pl.when(cheap > 0).then((cheap - pl.col("handed")).clip(0) / cheap).otherwise(0.0)
    scale = pl.when(others > 0).then(1 - short / others).otherwise(0.0)
    rest = 1 - pl.col("handed")
    hit = (pl.col("handover_s") > 0) & (pl.col("wait_s") > pl.col("handover_s")) & (rest > 0)
    return rows.with_columns(
        pl.when(hit)
        .then(pl.col(f"p_{cause}") * (kept if cause in ("cpu", "pipeline") else scale) / rest)
        .otherwise(pl.col(f"p_{cause}"))
        .alias(f"p_{cause}")
        for cause in seen
    )


def _seconds(split: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    nodes = rows.select("proc", "node").unique()
    storage = pl.col("wait_s") * (pl.col("p_storage") + pl.col("p_net"))
    return split.join(nodes, on="proc", how="left", maintain_order="left").select(
        "node", "proc", "sec", "wait_s", storage.alias("storage_s")
    )
