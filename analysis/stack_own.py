"""Why a rank that loads by itself waited: its own samples mix loading and training.

So the parts of a window are set against each other. Storage is at most what the rank's samples show
beside checkpoints, and at most the wait; the network at most what they show beside collectives.
Samples in which the rank only seemed to work (:mod:`.queueing`) are left out: what it did in
between decides; those in which it queued for a CPU are neither. What is left is CPU as far as
decoders and transforms were on the stack, or as the window has more CPU samples than training can
hold; then sleep; then nobody knows.
"""

from __future__ import annotations

import polars as pl

from slurm_io.analysis.samples import CAUSES, COUNTS

_KEYS = ["proc", "window"]


def of_itself(
    seconds: pl.DataFrame, placed: pl.DataFrame, real: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """(looks by cause and window, evidence, seconds) of ranks that load by themselves."""
    ticks = placed.filter(pl.col("role") == "rank").group_by("proc", "sec", "mono_ns", "phase").agg(
        pl.col("passes").max(), pl.col(*(f"n_{name}" for name in COUNTS)).sum()
    )  # fmt: skip
    own = ticks.group_by("proc", "sec").agg(
        pl.col("passes", *(f"n_{name}" for name in COUNTS)).sum()
    )
    queued = pl.col("n_cpu") * (1 - pl.col("real").fill_null(1.0))
    own = own.join(real, on="proc", how="left").with_columns(
        pl.col("passes") - queued, pl.col("n_cpu") - queued
    )
    by_second = seconds.join(own, on=["proc", "sec"], how="left").with_columns(
        pl.col("passes", *(f"n_{name}" for name in COUNTS)).fill_null(0)
    )
    sums = by_second.group_by(_KEYS).agg(
        pl.col("sec").min(),
        pl.col("looks", "by_itself", "own_cpu", "ckpt", "collective").sum(),
        pl.col("passes", *(f"n_{name}" for name in COUNTS)).sum(),
    )
    split = _split(sums)
    loads = split.filter(pl.col("by_itself") > 0)
    scale = pl.when(pl.col("looks") > 0).then(pl.col("passes") / pl.col("looks")).otherwise(0.0)
    evidence = loads.filter(pl.col("passes") > 0).select(
        "proc",
        "sec",
        (pl.col("by_itself") * scale).alias("passes"),
        *(pl.col(name) * scale for name in CAUSES),
    )
    storage = (pl.col("n_storage") + pl.col("n_net")) / pl.col("passes")
    waiting = pl.col("by_itself") / pl.col("looks")
    held = by_second.filter((pl.col("by_itself") > 0) & (pl.col("passes") > 0)).select(
        "proc",
        "sec",
        waiting.alias("wait_s"),
        pl.min_horizontal(waiting, storage).alias("storage_s"),
    )
    return split.select(*_KEYS, *CAUSES, "stray"), evidence, held


def _split(sums: pl.DataFrame) -> pl.DataFrame:
    """Looks by cause of each window; `stray`: storage that no wait and no save accounts for."""
    sampled = pl.col("passes") > 0
    share = {
        name: pl.when(sampled).then(pl.col(f"n_{name}") / pl.col("passes")).otherwise(0.0)
        * pl.col("looks")
        for name in ("storage", "net", "cpu", "sleep")
    }  # all in looks
    wait = pl.col("by_itself").cast(pl.Float64)
    beside_saves = (share["storage"] - pl.col("ckpt")).clip(0)
    sums = _evened(
        sums.with_columns(
            pl.min_horizontal(wait, beside_saves).alias("storage"),
            (beside_saves - wait).clip(0).alias("stray"),
        )
    )
    beside_collectives = (share["net"] - pl.col("collective")).clip(0)
    sums = sums.with_columns(
        pl.min_horizontal(wait - pl.col("storage"), beside_collectives).alias("net")
    )
    left = wait - pl.col("storage") - pl.col("net")
    # Of CPU samples so many must lie in the wait: the rest of the window cannot hold them all.
    forced = (share["cpu"] - (pl.col("looks") - wait)).clip(0)
    known = pl.when(sampled).then(pl.max_horizontal("own_cpu", forced)).otherwise(0.0)
    sums = sums.with_columns(pl.min_horizontal(left, known).alias("cpu"))
    left = left - pl.col("cpu")
    sums = sums.with_columns(pl.min_horizontal(left, share["sleep"]).alias("sleep"))
    return sums.with_columns(
        pl.lit(0.0).alias("pipeline"), (left - pl.col("sleep")).clip(0).alias("unknown")
    )


def _evened(sums: pl.DataFrame) -> pl.DataFrame:
    """Two counts of one thing differ by chance, and the smaller of both is too small on average:
    what one window has in excess of chance goes to those of the rank that lack it."""
    excess = pl.min_horizontal("stray", pl.col("looks").sqrt())  # two standard errors of a half
    lacking = (pl.col("by_itself") - pl.col("storage") - pl.col("own_cpu")).clip(0)
    sums = sums.with_columns(excess.alias("excess"), lacking.alias("lacking"))
    moved = pl.min_horizontal(pl.col("excess").sum(), pl.col("lacking").sum()).over("proc")
    sums = sums.with_columns(moved.alias("moved"))
    given = pl.col("moved") * _part("lacking")
    taken = pl.col("moved") * _part("excess")
    return sums.with_columns(pl.col("storage") + given, pl.col("stray") - taken).drop(
        "excess", "lacking", "moved"
    )


def _part(column: str) -> pl.Expr:
    total = pl.col(column).sum().over("proc")
    return pl.when(total > 0).then(pl.col(column) / total).otherwise(0.0)
