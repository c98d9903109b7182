"""How unequal the steps are, and what the slow ones have in common.

Steps stand without checkpoints, evaluations and pass starts, and steps with batches missing from
the record are left out. The first steps (a twentieth, at most 20) are warm-up.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis import thresholds as limits
from slurm_io.analysis.losses import Losses

WARMUP_STEPS = 20
_COLUMNS = ("unit", "step", "ts_ns", "net_s", "broken", "gc_s", "l_storage", "l_net", "l_cpu")


@dataclass(frozen=True)
class StepVariance:
    """Of the unit whose steps vary most. Times in seconds; None where too few steps.

    `aligned_share`: slow steps whose excess was mostly waiting for storage; `lift`: how much more
    frequent that is among slow steps than among others; `collected_share`: slow steps whose
    excess was mostly garbage collection; `cpu_share`: mostly batch preparation.
    """

    steps: int
    p50_s: float
    p99_s: float
    slow_steps: int
    aligned_share: float
    lift: float
    collected_share: float
    cpu_share: float
    slow_ts_ns: tuple[int, ...]

    def varies(self, variance: limits.Variance) -> bool:
        """Whether P99 is far above P50, both as a ratio and in seconds."""
        excess = self.p99_s - self.p50_s
        needed = max(variance.p99_minus_p50_s, variance.p99_minus_p50_of_p50 * self.p50_s)
        return self.p99_s >= variance.p99_over_p50 * self.p50_s and excess >= needed

    def is_aligned(self, variance: limits.Variance) -> bool:
        """Whether storage explains the slow steps."""
        return self.aligned_share >= variance.aligned_share and self.lift >= variance.lift


def step_variance(losses: Losses, variance: limits.Variance) -> StepVariance | None:
    """The unit with the highest P99 over P50; None without steps."""
    told = losses.unit_steps.select(_COLUMNS)
    found = [_of_unit(told.filter(pl.col("unit") == unit.unit), variance) for unit in losses.units]
    known = [one for one in found if one is not None]
    return max(known, key=lambda one: one.p99_s / max(one.p50_s, 1e-9), default=None)


def _of_unit(steps: pl.DataFrame, variance: limits.Variance) -> StepVariance | None:
    steps = steps if steps["step"].is_sorted() else steps.sort("step")
    steps = steps.slice(min(WARMUP_STEPS, steps.height // 20)).filter(~pl.col("broken"))
    p50, p99 = steps["net_s"].median(), steps["net_s"].quantile(0.99)
    if not isinstance(p50, (int, float)) or p99 is None:
        return None
    p50 = float(p50)
    slow_from = variance.slow_over_p50 * p50
    excess = pl.col("net_s") - p50
    needed = variance.explained_share * pl.max_horizontal(excess, slow_from - p50)
    marked = steps.select(
        "ts_ns",
        (pl.col("net_s") >= slow_from).alias("slow"),
        (pl.col("l_storage") + pl.col("l_net") >= needed).alias("storage"),
        (pl.col("gc_s") >= needed).alias("gc"),
        (pl.col("l_cpu") >= needed).alias("cpu"),
    )
    slow, normal = marked.filter("slow"), marked.filter(~pl.col("slow"))
    return StepVariance(
        steps=steps.height,
        p50_s=p50,
        p99_s=float(p99),
        slow_steps=slow.height,
        aligned_share=_share(slow["storage"]),
        lift=_share(slow["storage"]) / max(_share(normal["storage"]), 1 / max(1, normal.height)),
        collected_share=_share(slow["gc"]),
        cpu_share=_share(slow["cpu"]),
        slow_ts_ns=tuple(slow["ts_ns"].drop_nulls().head(3).to_list()),
    )


def _share(flags: pl.Series) -> float:
    return float(flags.sum()) / len(flags) if len(flags) else 0.0
