"""One of the two jobs: its steps in order of time, its latencies, and what they are based on.

``steps``: one row a step (of the log: a line) with ``t`` its training time in seconds, ``n`` how
many steps it stands for, ``net`` the time without checkpoints, ``weight`` its GPUs, the losses
``data`` (all exposed waits), ``storage`` of them and ``ckpt`` in seconds, and ``progress``, the
training time until its end.
Broken steps and the first ones (as in :mod:`slurm_io.analysis.variance`) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from slurm_io.analysis.bounds import Range
from slurm_io.analysis.compare.latencies import Latency, read_latencies
from slurm_io.analysis.compare.settings import Settings, read_settings
from slurm_io.analysis.log_series import LogSeries, main_series
from slurm_io.analysis.picture import Picture, take_picture
from slurm_io.analysis.report import report_of
from slurm_io.analysis.samples import CAUSES
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.analysis.variance import WARMUP_STEPS
from slurm_io.store.reader import open_job

_LOSSES = ("data", "storage", "ckpt")


@dataclass(frozen=True)
class Side:
    """`hook` and `log` are None where that clock told of no steps; `log_source` names the log's.

    `items`: items of a rank's step (batch size times batches a step), None where not known.
    `is_stepped`: steps are optimizer steps, not batches. `storage_off`: how far the
    share lost to reads may be from the value that the report gives, to the farther end of its
    range; it holds what sampling leaves open and waits whose cause nobody saw.
    """

    path: str
    report: dict[str, Any]
    settings: Settings
    hook: pl.DataFrame | None
    log: pl.DataFrame | None
    log_source: str | None
    latencies: tuple[Latency, ...]
    items: float | None
    batches_a_step: float | None
    is_stepped: bool
    storage_off: float


def read_side(path: Path, thresholds: Thresholds) -> Side:
    """Read and measure one store; what is kept of it is small but for one row a step.

    Raises:
        StoreError: there is no readable job store at `path`.
    """
    picture = take_picture(open_job(path), thresholds)
    return side_of(str(path), picture)


def side_of(path: str, picture: Picture) -> Side:
    """The same, of a picture that was taken already."""
    settings = read_settings(picture)
    series = main_series(picture.tables)
    batches = _batches_a_step(picture)
    sizes = settings.batch_sizes
    size = next(iter(sizes)) if len(sizes) == 1 else None
    return Side(
        path=path,
        report=report_of(picture),
        settings=settings,
        hook=_hook_steps(picture),
        log=None if series is None else _log_steps(series),
        log_source=None if series is None else series.source,
        latencies=read_latencies(picture),
        items=None if size is None or batches is None else size * batches,
        batches_a_step=batches,
        is_stepped=all(process.stepped for process in picture.timeline.processes),
        storage_off=_farther(picture.data_storage),
    )


def _farther(told: Range) -> float:
    return max(told.high - told.value, told.value - told.low)


def _hook_steps(picture: Picture) -> pl.DataFrame | None:
    losses = picture.losses
    if losses.unit_steps.is_empty():
        return None
    sizes = {
        unit.unit: sum(picture.gpus.of_proc[proc] for proc in unit.procs) for unit in losses.units
    }
    ordinal = pl.int_range(pl.len()).over("unit")
    warmup = pl.min_horizontal(pl.lit(WARMUP_STEPS), pl.len().over("unit") // 20)
    steps = (
        losses.unit_steps.sort("unit", "step")
        .filter((ordinal >= warmup) & ~pl.col("broken"))
        .sort("ts_ns")
    )
    return steps.select(
        (pl.col("net_s") + pl.col("l_ckpt") + pl.col("l_epoch")).alias("t"),
        pl.lit(1.0).alias("n"),
        pl.col("net_s").alias("net"),
        pl.col("unit").replace_strict(sizes, return_dtype=pl.Float64).alias("weight"),
        pl.sum_horizontal(f"l_{cause}" for cause in CAUSES).alias("data"),
        (pl.col("l_storage") + pl.col("l_net")).alias("storage"),
        pl.col("l_ckpt").alias("ckpt"),
    ).with_columns(pl.col("t").cum_sum().alias("progress"))


def _log_steps(series: LogSeries) -> pl.DataFrame:
    found = sorted(series.stretches, key=lambda one: one.until_ns)
    steps = pl.DataFrame(
        [(one.seconds, float(one.steps), one.step_s) for one in found],
        schema={"t": pl.Float64, "n": pl.Float64, "net": pl.Float64},
        orient="row",
    )
    return steps.with_columns(
        pl.lit(1.0).alias("weight"),
        *(pl.lit(None, pl.Float64).alias(name) for name in _LOSSES),
        pl.col("t").cum_sum().alias("progress"),
    )


def _batches_a_step(picture: Picture) -> float | None:
    processes = picture.timeline.processes
    steps = sum(process.steps for process in processes)
    return sum(process.batches for process in processes) / steps if steps else None
