"""Blocking checkpoints of the training windows: how many, how long, how large, and in what.

This file is about time. Whether a checkpoint is whole is F13's question.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.causes import Causes
from slurm_io.analysis.timeline import Timeline
from slurm_io.analysis.where import Mount, mounts_of
from slurm_io.analysis.windows import blocking_saves


@dataclass(frozen=True)
class Checkpoints:
    """`storage_share`: of the samples taken in blocking saves that were in storage; None without
    samples. `interval_s`: median time between two saves of one process.
    """

    count: int
    mean_s: float
    longest_s: float
    bytes: int | None
    path: str | None
    first_ts_ns: int | None
    last_ts_ns: int | None
    interval_s: float | None
    storage_share: float | None
    mounts: tuple[Mount, ...]


def find_checkpoints(timeline: Timeline, causes: Causes) -> Checkpoints | None:
    """None when no blocking save lies in a training window."""
    windows = pl.DataFrame(
        [(process.proc, process.opens, process.closes) for process in timeline.processes],
        schema={"proc": pl.Int32, "opens": pl.Int64, "closes": pl.Int64},
        orient="row",
    )
    saves = blocking_saves(timeline.events).join(windows, on="proc")
    saves = saves.filter((pl.col("end") > pl.col("opens")) & (pl.col("start") < pl.col("closes")))
    if saves.is_empty():
        return None
    length_s = (saves["end"] - saves["start"]) / 1e9
    between = saves.sort("start").select(pl.col("start").diff().over("proc") / 1e9).to_series()
    sizes = saves["bytes"].drop_nulls()
    longest = saves.sort(pl.col("end") - pl.col("start"), "path", descending=[True, False])
    paths = longest["path"].drop_nulls()
    samples = causes.samples.filter((pl.col("phase") == "ckpt") & (pl.col("role") == "rank"))
    seen = _total_samples(samples)
    return Checkpoints(
        count=saves.height,
        mean_s=float(length_s.sum()) / saves.height,
        longest_s=max(length_s.to_list()),
        bytes=int(sizes.sum()) if len(sizes) else None,
        path=paths[0] if len(paths) else None,
        first_ts_ns=_int(saves["ts_ns"].min()),
        last_ts_ns=_int(saves["ts_ns"].max()),
        interval_s=_float(between.median()),
        storage_share=int(samples["n_storage"].sum()) / seen if seen else None,
        mounts=mounts_of(samples),
    )


def _total_samples(samples: pl.DataFrame) -> int:
    counts = [name for name in samples.columns if name.startswith("n_") and name != "n_fault"]
    return int(samples.select(pl.sum_horizontal(pl.col(counts).sum())).item() or 0)


def _int(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
