"""GPU time lost, by cause: over single processes a sum, over synchronous ones a maximum.

In a synchronous step every rank waits for the last one. With s_r what rank r lost by itself
(exposed data wait + blocking checkpoint + pass start) and c_r the rest of its step, the step took
max(s + c) and would have taken max(c). The rank with the largest s holds the others; its own rest
c_h is pure, while another rank's measured rest contains waiting for the holder in the collective.
So c_r is taken as the low percentile of its rest over all steps, and at most c_h (value: ranks of
one synchronous job do the same work) or c_h + 10 % (low). Causes are the holder's.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.gpus import Gpus
from slurm_io.analysis.lockstep import Unit
from slurm_io.analysis.steps import LOSSES
from slurm_io.analysis.thresholds import Lockstep
from slurm_io.analysis.timeline import Timeline

_LOSS_COLUMNS = [f"l_{name}" for name in LOSSES]
_KEPT = [*_LOSS_COLUMNS, "storage_low_s", "storage_high_s", "lost_high_s"]


@dataclass(frozen=True)
class Losses:
    """GPU-seconds. `unit_steps`: one row a unit and step (seconds, not GPU-seconds): unit step
    holder t0 ts_ns net_s gc_s broken and the losses. `by_cause` has a value for each of LOSSES.
    """

    base_gpu_s: float
    startup_gpu_s: float
    by_cause: dict[str, float]
    storage_low_gpu_s: float
    storage_high_gpu_s: float
    data_high_gpu_s: float
    unit_steps: pl.DataFrame
    units: tuple[Unit, ...]

    def share(self, *causes: str) -> float:
        """Share of the training GPU-seconds lost to these causes."""
        lost = sum(self.by_cause[cause] for cause in causes)
        return min(1.0, lost / self.base_gpu_s) if self.base_gpu_s > 0 else 0.0


def add_up(
    steps: pl.DataFrame, timeline: Timeline, units: tuple[Unit, ...], gpus: Gpus, limits: Lockstep
) -> Losses:
    """Losses of the whole job."""
    members = pl.DataFrame(
        [(proc, unit.unit) for unit in units for proc in unit.procs],
        schema={"proc": pl.Int32, "unit": pl.Int32},
        orient="row",
    )
    held = _hold(steps.join(members, on="proc"), limits)
    weights = {unit.unit: sum(gpus.of_proc[proc] for proc in unit.procs) for unit in units}
    weight = pl.col("unit").replace_strict(weights, return_dtype=pl.Float64)
    kept = held.select((pl.col(name) * weight).sum() for name in _KEPT) if weights else None
    sums = kept.row(0, named=True) if kept is not None else dict.fromkeys(_KEPT, 0.0)
    by_proc = timeline.by_proc
    return Losses(
        base_gpu_s=sum(by_proc[p].training_s * gpus.of_proc[p] for p in by_proc),
        startup_gpu_s=sum(by_proc[p].startup_s * gpus.of_proc[p] for p in by_proc),
        by_cause={name: sums[f"l_{name}"] for name in LOSSES},
        storage_low_gpu_s=sums["storage_low_s"],
        storage_high_gpu_s=sums["storage_high_s"],
        data_high_gpu_s=sums["lost_high_s"],
        unit_steps=held,
        units=units,
    )


def _hold(steps: pl.DataFrame, limits: Lockstep) -> pl.DataFrame:
    """One row a unit and step: the holder's, its low bound scaled by what the others hide."""
    own = pl.sum_horizontal(_LOSS_COLUMNS)
    marked = steps.with_columns(own.alias("own_s")).with_columns(
        (pl.col("gross_s") - pl.col("own_s")).clip(0).alias("rest_s")
    )
    marked = marked.with_columns(pl.col("rest_s").quantile(0.10).over("proc").alias("pure_rest_s"))
    ordered = marked.sort("unit", "step", "own_s", "proc", descending=[False, False, True, False])
    held = ordered.group_by("unit", "step", maintain_order=True).agg(
        pl.first("proc").alias("holder"),
        pl.first("t0", "ts_ns", "wait_s", "own_s", "rest_s", *_KEPT),
        pl.col("net_s", "gc_s", "eval_s", "gap_s").max(),
        pl.col("broken").any(),
        pl.col("pure_rest_s").slice(1).max().alias("others_rest_s"),
    )
    others = pl.col("others_rest_s").fill_null(0.0)  # null: a unit of one process
    bound = pl.min_horizontal(others, pl.col("rest_s") * (1 + limits.heterogeneity))
    hidden = (bound - pl.col("rest_s")).clip(0)
    sure = pl.when(pl.col("own_s") > 0).then((1 - hidden / pl.col("own_s")).clip(0)).otherwise(1.0)
    return held.with_columns((pl.col("storage_low_s") * sure).alias("storage_low_s"))
