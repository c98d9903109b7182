"""From when to when each process trained, and the stretches inside that are not training steps.

The window opens when the first training batch was delivered and closes when the last training step
ended, as far as that is known: at the next thing the process did (a row, a checkpoint, its exit),
at most one longest step after the batch came. A blocking checkpoint right behind the last step
belongs to the window when the job saved during training too; a single save at the very end is the
job's product, not a stall.

Stretches (proc, kind, start, end): eval, ckpt, load, epoch, gap; cut to the window.
"""

from __future__ import annotations

from bisect import bisect, insort

import polars as pl

from slurm_io.analysis.events import CHECKPOINT_KINDS, EPOCH_KINDS

_SOON_NS = 1_000_000_000  # a save that begins within this time of the last step follows it


def find_windows(batches: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """One row a process that trained: proc, opens, closes (ns)."""
    trained = batches.filter("training")
    body = pl.col("next_start") - pl.col("end")
    spans = trained.group_by("proc").agg(
        pl.col("end").min().alias("opens"),
        pl.col("end").max().alias("last_end"),
        pl.col("next_start").sort_by("start").last().alias("next_row"),
        body.filter(~pl.col("lost_before")).median().alias("usual_body"),
        body.quantile(0.99).alias("long_body"),
    )
    stops = events.filter(pl.col("kind") != "gc").select("proc", pl.col("start").alias("stop"))
    spans = spans.sort("last_end").join_asof(
        stops.sort("stop"), left_on="last_end", right_on="stop", by="proc", strategy="forward",
        check_sortedness=False,
    )  # fmt: skip
    following = pl.min_horizontal("next_row", "stop")
    longest = pl.col("last_end") + pl.col("long_body").fill_null(0).cast(pl.Int64)
    usual = pl.col("last_end") + pl.col("usual_body").fill_null(0).cast(pl.Int64)
    closes = pl.when(following.is_null()).then(usual)
    spans = spans.with_columns(
        closes.otherwise(pl.min_horizontal(following, longest)).alias("closes")
    )
    return _with_last_checkpoint(spans.select("proc", "opens", "closes"), events).sort("proc")


def _with_last_checkpoint(windows: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    saves = blocking_saves(events).join(windows, on="proc")
    habitual = saves.filter(pl.col("start") < pl.col("closes")).select("proc").unique()
    after = saves.join(habitual, on="proc", how="semi").filter(
        (pl.col("start") >= pl.col("closes")) & (pl.col("start") < pl.col("closes") + _SOON_NS)
    )
    extended = after.group_by("proc").agg(pl.col("end").min().alias("saved"))
    return windows.join(extended, on="proc", how="left").select(
        "proc", "opens", pl.max_horizontal("closes", "saved").alias("closes")
    )


def blocking_saves(events: pl.DataFrame) -> pl.DataFrame:
    """Checkpoint events that the training thread waited for."""
    return events.filter(pl.col("kind").is_in(CHECKPOINT_KINDS) & pl.col("blocking"))


def find_stretches(
    batches: pl.DataFrame, events: pl.DataFrame, windows: pl.DataFrame
) -> pl.DataFrame:
    """Stretches of all windows; those of one process do not overlap."""
    evals = _evaluations(batches, events)
    saves = _of(blocking_saves(events), "ckpt")
    loads = _of(events.filter((pl.col("kind") == "load") & pl.col("blocking")), "load")
    epochs = _of(events.filter(pl.col("kind").is_in(EPOCH_KINDS)), "epoch")
    found = pl.concat([evals, saves, loads, epochs, _gaps(batches)])
    inside = found.join(windows, on="proc").select(
        "proc",
        "kind",
        pl.max_horizontal("start", "opens").alias("start"),
        pl.min_horizontal("end", "closes").alias("end"),
    )
    return _disjoint(inside.filter(pl.col("end") > pl.col("start")))


def _of(events: pl.DataFrame, kind: str) -> pl.DataFrame:
    return events.select("proc", pl.lit(kind).alias("kind"), "start", "end")


def _gaps(batches: pl.DataFrame) -> pl.DataFrame:
    """From the end of the last batch seen to the first after the loss."""
    return (
        batches.with_columns(pl.col("end").shift(1).over("proc").alias("from"))
        .filter(pl.col("lost_before") & pl.col("from").is_not_null())
        .select("proc", pl.lit("gap").alias("kind"), pl.col("from").alias("start"),
                pl.col("start").alias("end"))
    )  # fmt: skip


def _evaluations(batches: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Runs of evaluation batches, with the loader's own start and end where events tell them."""
    runs = (
        batches.with_columns(
            pl.struct("proc", "training").rle_id().alias("run"),
            pl.col("end").shift(1).over("proc").alias("previous_end"),
        )
        .group_by("run", maintain_order=True)
        .agg(
            pl.first("proc", "training", "start", "previous_end"),
            pl.last("end", "next_start"),
        )
        .filter(~pl.col("training"))
    )
    opened = events.filter(pl.col("kind") == "epoch_start").select("proc", opened="start")
    ended = events.filter(pl.col("kind") == "epoch_end").select("proc", ended="start", over="end")
    runs = runs.sort("start").join_asof(
        opened.sort("opened"), left_on="start", right_on="opened", by="proc", strategy="backward",
        check_sortedness=False,
    )  # fmt: skip
    runs = runs.sort("end").join_asof(
        ended.sort("ended"), left_on="end", right_on="ended", by="proc", strategy="forward",
        check_sortedness=False,
    )  # fmt: skip
    has_start = pl.col("opened") >= pl.col("previous_end")
    has_end = pl.col("ended") <= pl.col("next_start")
    return runs.select(
        "proc",
        pl.lit("eval").alias("kind"),
        pl.when(has_start).then("opened").otherwise("start").alias("start"),
        pl.when(has_end).then("over").otherwise(pl.coalesce("next_start", "end")).alias("end"),
    )


def _disjoint(stretches: pl.DataFrame) -> pl.DataFrame:
    """Cut overlaps: a save inside an evaluation is a save, an event inside a gap is the event."""
    order = {kind: place for place, kind in enumerate(("ckpt", "load", "eval", "epoch", "gap"))}
    place = pl.col("kind").replace_strict(order, return_dtype=pl.Int32)
    kept: list[tuple[int, str, int, int]] = []
    taken: dict[int, list[tuple[int, int]]] = {}
    for proc, kind, start, end in stretches.sort("proc", place, "start").rows():
        for piece in _take(start, end, taken.setdefault(proc, [])):
            kept.append((proc, kind, *piece))
    return pl.DataFrame(kept, schema=stretches.schema, orient="row").sort("proc", "start")


def _take(start: int, end: int, taken: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts of [start, end) still free; they are put into `taken`, which stays sorted."""
    at = max(0, bisect(taken, (start, start)) - 1)
    free: list[tuple[int, int]] = []
    while at < len(taken) and taken[at][0] < end:
        low, high = taken[at]
        if low > start:
            free.append((start, low))
        start = max(start, high)
        at += 1
    if start < end:
        free.append((start, end))
    for piece in free:
        insort(taken, piece)
    return free
