"""Low, value and high of the storage share: what the samples, the GPU queue and the unknown allow.

low: exposure at its least, the sampling interval's lower end, nothing of the unknown. high:
exposure at its most, the upper end, all of the unknown, and as much of the hand-over as may have
been storage too. Blocking checkpoints are timed and move all three alike, but for a small margin.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.losses import Losses
from slurm_io.analysis.shares import effective_samples, wilson
from slurm_io.analysis.thresholds import Thresholds

_CLOCK_MARGIN = 0.02  # saves are timed exactly; the window they are shares of ends within a step
_DATA = ("storage", "net", "cpu", "pipeline", "sleep", "unknown")


@dataclass(frozen=True)
class Range:
    """low <= value <= high, all 0..1."""

    low: float
    value: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """As the report holds it."""
        return {"low": self.low, "value": self.value, "high": self.high}


def storage_range(losses: Losses, evidence: pl.DataFrame, thresholds: Thresholds) -> Range:
    """Share of training GPU time lost to waits for storage, object store included."""
    sampling = thresholds.sampling
    if losses.base_gpu_s <= 0:
        return Range(0.0, 0.0, 0.0)
    value = losses.by_cause["storage"] + losses.by_cause["net"]
    total = sum(losses.by_cause[name] for name in _DATA)
    seen = value / total if total > 0 else 0.0
    samples = effective_samples(evidence, ["storage", "net"])
    least, most = wilson(min(1.0, seen), samples, sampling.interval_z)
    hits = float(evidence.select(pl.sum_horizontal(pl.col("storage", "net").sum())).item() or 0)
    if hits < thresholds.enough.cause_samples:
        least = 0.0  # a stray sample proves nothing
    low = losses.storage_low_gpu_s * (least / seen if seen > 0 else 0.0) * (1 - sampling.systematic)
    total_high = losses.data_high_gpu_s
    most_seen = max(most * total_high, losses.storage_high_gpu_s) * (1 + sampling.systematic)
    vague = losses.by_cause["unknown"] + losses.by_cause["sleep"]
    handover = losses.by_cause["handover"] * most
    high = min(total_high, most_seen + vague) + handover
    return _ordered(low / losses.base_gpu_s, value / losses.base_gpu_s, high / losses.base_gpu_s)


def with_checkpoint(data: Range, checkpoint: float) -> Range:
    """The storage share the report leads with: data waits and blocking checkpoints."""
    margin = _CLOCK_MARGIN * checkpoint
    return _ordered(
        data.low + checkpoint - margin, data.value + checkpoint, data.high + checkpoint + margin
    )


def _ordered(low: float, value: float, high: float) -> Range:
    value = min(1.0, max(0.0, value))
    return Range(min(value, max(0.0, low)), value, max(value, min(1.0, high)))
