"""The batches each training process asked for: cleaned, ordered, told apart into training and not.

A *process* is one pid on one node; it gets a small number, `proc`. A *pass* is one run over a
loader (loader, epoch). A pass is training when the process's optimizer stepped during it, or when
the process never stepped at all; else it is evaluation. The last pass of a training loader counts
as training even when the job was cut before its first step.

Columns of the frame, times in monotonic ns of the node: proc node pid rank loader epoch batch step
start end wait_s next_start lost_before first workers cuda gpu_idle_s ts_ns training.
"""

from __future__ import annotations

import polars as pl

from slurm_io.analysis.inputs import Tables

NS = 1_000_000_000
_COLUMNS = (
    "ts_ns", "mono_ns", "pid", "rank", "loader", "epoch", "batch", "step", "data_wait_ns",
    "gpu_idle_ns", "first", "workers", "cuda",
)  # fmt: skip
_KEY = ("node", "pid", "mono_ns", "loader", "epoch", "batch")
_MEASURED = ("mono_ns", "pid", "loader", "epoch", "batch", "gpu_idle_ns")
_LONGEST_WAIT_NS = 86_400 * NS  # a longer one is damage: batches of a day do not exist


def read_batches(tables: Tables) -> pl.DataFrame:
    """All batches of the job, one row each, by process and time."""
    raw = tables.frame("steps", _COLUMNS).drop_nulls(["mono_ns", "pid", "loader", "epoch", "batch"])
    raw = _by_process(raw)
    # A row written twice (recovery of a stream) lies beside itself now.
    same = [pl.col(name) == pl.col(name).shift(1) for name in _KEY]
    raw = _with_measured(raw.filter(~pl.all_horizontal(same).fill_null(False)), tables)
    numbered = raw.with_columns(
        (pl.struct("node", "pid").rle_id().cast(pl.Int32)).alias("proc"),
        pl.col("step").fill_null(0),
        pl.col("first", "workers", "cuda").fill_null(False),
        pl.col("data_wait_ns").fill_null(0).clip(0, _LONGEST_WAIT_NS),
    )
    return _with_losses(_with_times(numbered.set_sorted("proc")))


def _by_process(raw: pl.DataFrame) -> pl.DataFrame:
    """By node, pid and time. Rows of a node come by time, as a rule: then the rows of each process
    only have to be put together, which costs a tenth of a sort by three keys."""
    key = pl.col("node").to_physical().cast(pl.Int64) * 2**33 + pl.col("pid")
    keyed = raw.with_columns(key.alias("key"))
    if not keyed["key"].is_sorted():
        places = keyed.select("key").with_row_index("at").group_by("key").agg("at").sort("key")
        keyed = keyed[places["at"].explode()]
    same = pl.col("key") == pl.col("key").shift(1)
    back = same & (pl.col("mono_ns") < pl.col("mono_ns").shift(1))
    if keyed.select(back.any()).item():
        return raw.sort("node", "pid", "mono_ns")
    return keyed.drop("key")


def _with_measured(raw: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    """Fill gpu_idle_ns from what came after the batch, and was written to a table of its own.

    A process begins one wait at a time, so the moment alone finds the row: an eighth of the price
    of a join by all that must agree.
    """
    measured = tables.frame("gpu_waits", _MEASURED).drop_nulls()
    if measured.is_empty():
        return raw
    near = raw.join_asof(
        measured.sort("node", "pid", "mono_ns"), on="mono_ns", by=["node", "pid"], suffix="_later",
        strategy="backward", tolerance=0, check_sortedness=False,
    )  # fmt: skip
    same = [pl.col(name) == pl.col(f"{name}_later") for name in ("loader", "epoch", "batch")]
    later = pl.when(pl.all_horizontal(same)).then("gpu_idle_ns_later")
    return near.with_columns(pl.coalesce("gpu_idle_ns", later)).select(raw.columns)


def _with_times(raw: pl.DataFrame) -> pl.DataFrame:
    """Start, end and next start; a wait never reaches into the next batch's."""
    timed = raw.with_columns(
        pl.col("mono_ns").alias("start"),
        pl.col("mono_ns").shift(-1).over("proc").alias("next_start"),
    )
    until_next = pl.col("next_start") - pl.col("start")
    wait_ns = pl.min_horizontal("data_wait_ns", until_next)
    idle_s = pl.lit(None, pl.Float64)  # where nothing was measured one value is no column in memory
    if raw["gpu_idle_ns"].null_count() < raw.height:
        idle_s = pl.when(pl.col("gpu_idle_ns") >= 0).then(
            pl.min_horizontal("gpu_idle_ns", wait_ns) / NS
        )
    return timed.with_columns(
        (pl.col("start") + wait_ns).alias("end"),
        (wait_ns / NS).alias("wait_s"),
        idle_s.alias("gpu_idle_s"),
    ).drop("mono_ns", "data_wait_ns", "gpu_idle_ns")


def _with_losses(timed: pl.DataFrame) -> pl.DataFrame:
    """`pass`, and `lost_before`: batches missing between the previous row of the pass and this one
    (ring overrun)."""
    numbered = timed.with_columns(_passes(timed))
    previous = pl.col("batch").shift(1).over("pass")
    missing = pl.when(previous.is_null()).then(pl.col("batch") > 0)
    return numbered.with_columns(
        missing.otherwise(pl.col("batch") - previous > 1).alias("lost_before")
    )


def _passes(timed: pl.DataFrame) -> pl.Series:
    """Number of the pass (proc, loader, epoch) of each row: three keys cost three times as much.

    Passes hardly ever take turns, so there are few runs of rows of one pass to be numbered.
    """
    key = pl.struct("proc", "loader", "epoch")
    run = timed.select(key.rle_id()).to_series()
    begins = timed.filter((run != run.shift(1)).fill_null(True))
    number = begins.select(key.rank("dense").alias("pass")).to_series().gather(run)
    return number.set_sorted() if number.is_sorted() else number


def mark_training(batches: pl.DataFrame, final_steps: pl.DataFrame) -> pl.DataFrame:
    """Add `training` and `stepped`. `final_steps` (proc, final_step) is what each process's events
    last told."""
    following = pl.coalesce(
        pl.col("step").shift(-1).over("proc"),
        pl.max_horizontal("final_step", "step"),
    )
    told = batches.select("proc", "loader", "pass", "step", "start")
    passes = (
        told.join(final_steps, on="proc", how="left", maintain_order="left")
        .with_columns(following.alias("after"))
        .group_by("pass")
        .agg(pl.first("proc", "loader"), pl.col("after", "start").max(), pl.col("step").min())
    )
    stepped = (pl.col("after").max() - pl.col("step").min()).over("proc") > 0
    passes = passes.with_columns(
        stepped.alias("stepped"), (pl.col("after") > pl.col("step")).alias("advanced")
    )
    trains = pl.col("advanced").any().over("proc", "loader")
    is_last = pl.col("start") == pl.col("start").max().over("proc")
    training = pl.col("advanced") | ~pl.col("stepped") | (is_last & trains)
    kinds = passes.select("pass", "stepped", training.alias("training")).sort("pass")
    marked = batches.join(kinds, on="pass", how="left", maintain_order="left").drop("pass")
    if passes["stepped"].all():
        return marked
    # Without optimizer steps every training batch counts as one step, so that ranks can be joined.
    ordinal = pl.int_range(pl.len()).over("proc")
    step = pl.when("stepped").then(pl.col("step")).otherwise(ordinal)
    return marked.with_columns(step.alias("step"))
