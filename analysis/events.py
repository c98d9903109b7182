"""What the hook reported beside batches: checkpoints, loads, epoch boundaries, collections.

Columns: proc start end kind blocking failed bytes path step ts_ns; only events of processes that
trained. Times in monotonic ns of the node.
"""

from __future__ import annotations

import polars as pl

from slurm_io.analysis.inputs import Tables

CHECKPOINT_KINDS = ("ckpt_save", "ckpt_async")
EPOCH_KINDS = ("epoch_start", "epoch_end")
_COLUMNS = (
    "ts_ns", "mono_ns", "end_mono_ns", "pid", "kind", "blocking", "failed", "bytes", "path", "step",
)  # fmt: skip


def read_events(tables: Tables, batches: pl.DataFrame) -> pl.DataFrame:
    """All events of the processes in `batches`, by process and time."""
    processes = batches.select("node", "pid", "proc").unique()
    raw = tables.frame("events", _COLUMNS).drop_nulls(["mono_ns", "end_mono_ns", "pid", "kind"])
    return (
        raw.join(processes, on=["node", "pid"], how="inner")
        .rename({"mono_ns": "start", "end_mono_ns": "end"})
        .with_columns(
            pl.max_horizontal("start", "end").alias("end"),
            pl.col("blocking", "failed").fill_null(False),
        )
        .sort("proc", "start")
    )


def final_steps(events: pl.DataFrame) -> pl.DataFrame:
    """The highest optimizer step count each process's events carry."""
    return events.group_by("proc").agg(pl.col("step").max().alias("final_step"))
