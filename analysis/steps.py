"""Optimizer steps of each process: duration, losses by cause, and what else lay in them.

A step runs from its first batch's wait to the next step's. Checkpoints, evaluations, loads, passes
started and ended, collections are put to the step they began in; `net_s` is the duration without
all of them but collections, so that a periodic checkpoint is no slow step.
"""

from __future__ import annotations

import polars as pl

from slurm_io.analysis.batches import NS
from slurm_io.analysis.samples import CAUSES
from slurm_io.analysis.timeline import Timeline

LOSSES = (*CAUSES, "handover", "epoch", "ckpt")
_ROW_LOSSES = [*(f"l_{cause}" for cause in CAUSES), "storage_low_s", "storage_high_s"]


def find_steps(rows: pl.DataFrame, timeline: Timeline) -> pl.DataFrame:
    """One row for each process and step; seconds but for t0 (monotonic ns) and ts_ns."""
    ends = {process.proc: process.closes for process in timeline.processes}
    closes = pl.col("proc").replace_strict(ends, default=None, return_dtype=pl.Int64)
    steps = _with_stretches(_added_up(rows), timeline)
    same = pl.col("proc") == pl.col("proc").shift(-1)
    following = pl.when(same).then(pl.col("t0").shift(-1))
    cut_short = pl.when(same).then(pl.col("broken").shift(-1))
    gross = (pl.coalesce(following, pl.max_horizontal(closes, "t0")) - pl.col("t0")) / NS
    beside = pl.sum_horizontal("l_ckpt", "eval_s", "load_s", "l_epoch", "gap_s")
    return steps.with_columns(
        gross.alias("gross_s"),
        (gross - beside).clip(0).alias("net_s"),
        (pl.col("broken") | cut_short.fill_null(False) | (pl.col("gap_s") > 0)).alias("broken"),
    )


def _added_up(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of each step as one: proc step ts_ns t0 broken l_handover lost_high_s and so on.

    Rows come by process and time, so a step's rows lie together. Where every step has one batch, as
    a rule, nothing has to be added up and nothing is copied.
    """
    run = rows.select(pl.struct("proc", "step").rle_id()).to_series()
    lost = ("lost_high_s", *_ROW_LOSSES)
    if rows.is_empty() or run[-1] + 1 == rows.height:
        return rows.select(
            "proc", "step", "ts_ns", pl.col("start").alias("t0"),
            pl.col("lost_before").fill_null(False).alias("broken"),
            pl.col("handover_lost_s").fill_null(0.0).alias("l_handover"),
            pl.col(lost).fill_null(0.0),
        )  # fmt: skip
    return (
        rows.group_by(run.alias("run"), maintain_order=True)
        .agg(
            pl.first("proc", "step", "ts_ns"),
            pl.col("start").first().alias("t0"),
            pl.col("lost_before").any().alias("broken"),
            pl.col("handover_lost_s").sum().alias("l_handover"),
            pl.col(lost).sum(),
        )
        .drop("run")
    )


def _with_stretches(steps: pl.DataFrame, timeline: Timeline) -> pl.DataFrame:
    """Add l_ckpt, l_epoch, eval_s, load_s, gap_s, gc_s."""
    collections = timeline.events.filter(pl.col("kind") == "gc")
    beside = pl.concat(
        [timeline.stretches, collections.select("proc", "kind", "start", "end")],
        how="vertical_relaxed",
    )
    names = {"ckpt": "l_ckpt", "epoch": "l_epoch", "eval": "eval_s", "load": "load_s",
             "gap": "gap_s", "gc": "gc_s"}  # fmt: skip
    if beside.is_empty():
        return steps.with_columns(pl.lit(0.0).alias(name) for name in names.values())
    # Steps come by process and time: within each process they are in order.
    placed = beside.sort("start").join_asof(
        steps.select("proc", "step", "t0"),
        left_on="start", right_on="t0", by="proc", strategy="backward", check_sortedness=False,
    )  # fmt: skip
    # What began before the first row inside the window belongs to its first step.
    first = steps.group_by("proc").agg(pl.col("step").first().alias("first_step"))
    placed = placed.join(first, on="proc").with_columns(pl.coalesce("step", "first_step"))
    length = (pl.col("end") - pl.col("start")) / NS
    sums = placed.group_by("proc", "step").agg(
        length.filter(pl.col("kind") == kind).sum().alias(name) for kind, name in names.items()
    )
    return steps.join(sums, on=["proc", "step"], how="left", maintain_order="left").with_columns(
        pl.col(*names.values()).fill_null(0.0)
    )
