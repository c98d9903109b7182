"""How much of a data wait was lost: less the hand-over, and less what queued GPU work hid.

A process without CUDA loses the whole wait. With CUDA and measured GPU idle time, that is the loss:
the GPU ran dry at some time in the wait and stood still until its end, so the hand-over, which ends
the wait, comes out of it first (high: it does not). With CUDA and nothing measured the GPU may
still have been working off the previous step, at most as long as a step's own work: low = wait -
the median step without its wait, high = wait. What to take in between depends on the loader. One
with workers that makes the process wait at all has an empty queue: were the GPU the bottleneck, the
process would block in a synchronisation while the workers filled the queue, so in the long run the
wait is lost: value = high. Without workers the read happens every step whether or not the GPU is
behind: value = the middle.

The hand-over of a batch from a worker (queue, unpickling, descriptors) is the loader's own cost:
the fastest waits of the run show it. A run whose fastest waits are all stalls shows none, and is
given the usual 2 ms. It is counted as pipeline and never as a stall.
"""

from __future__ import annotations

import polars as pl

from slurm_io.analysis.thresholds import Loader


def expose(rows: pl.DataFrame, loader: Loader) -> pl.DataFrame:
    """Add handover_s and, for the rest of the wait, lost_low_s <= lost_s <= lost_high_s.

    handover_lost_s is the part of the hand-over in which the GPU stood still, as far as is known.
    """
    rows = rows.with_columns(_handover(loader).alias("handover_s"))
    rest = pl.col("wait_s") - pl.col("handover_s")
    body = (pl.col("next_start") - pl.col("end")) / 1e9
    rows = rows.with_columns(
        rest.alias("rest_s"),
        body.filter(~pl.col("lost_before")).median().over("proc").fill_null(0.0).alias("hide_s"),
    )
    known = pl.col("gpu_idle_s").is_not_null()
    handover = pl.when(known).then(pl.min_horizontal("gpu_idle_s", "handover_s"))
    measured = pl.when(known).then((pl.col("gpu_idle_s") - handover).clip(0))
    measured_high = pl.when(known).then(pl.min_horizontal("gpu_idle_s", "rest_s"))
    hidden = (pl.col("rest_s") - pl.col("hide_s")).clip(0)
    low = pl.when(pl.col("cuda")).then(hidden).otherwise("rest_s")
    is_half = pl.col("cuda") & ~pl.col("workers")
    middle = pl.when(is_half).then((hidden + pl.col("rest_s")) / 2).otherwise("rest_s")
    return rows.with_columns(
        pl.coalesce(handover, "handover_s").alias("handover_lost_s"),
        pl.coalesce(measured, low).alias("lost_low_s"),
        pl.coalesce(measured, middle).alias("lost_s"),
        pl.coalesce(measured_high, "rest_s").alias("lost_high_s"),
    ).drop("hide_s", "rest_s")


def _handover(loader: Loader) -> pl.Expr:
    """0 without workers and for first batches; else the usual hand-over, its jitter included."""
    ordinary = pl.col("workers") & ~pl.col("first")
    fastest = (
        pl.col("wait_s").filter(ordinary).quantile(loader.handover_quantile).over("proc", "loader")
    )
    shown = fastest <= loader.handover_cap_s
    base = pl.when(shown).then(fastest).otherwise(loader.handover_usual_s)
    limit = pl.min_horizontal(base * loader.handover_jitter, loader.handover_cap_s)
    wait = pl.col("wait_s")
    usual = pl.when(wait <= limit).then(wait).otherwise(pl.min_horizontal(wait, base))
    return pl.when(ordinary).then(usual.fill_null(0.0)).otherwise(0.0)
