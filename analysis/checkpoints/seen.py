"""All that is known of a job's checkpoints: cost, writers, rate, interval, what they disturb."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from slurm_io.analysis.causes import Causes
from slurm_io.analysis.checkpoints.advice import Advice, advise
from slurm_io.analysis.checkpoints.blocking import Checkpoints, find_checkpoints
from slurm_io.analysis.checkpoints.interference import Interference, find_interference
from slurm_io.analysis.checkpoints.saves import Save, find_saves
from slurm_io.analysis.checkpoints.written import Rate, Written, find_rate, find_written, mount_of
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.losses import Losses
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.analysis.timeline import Timeline


@dataclass(frozen=True)
class Checkpointing:
    """`share`: of training GPU time, lost in blocking parts; `disturbance`: of training, waited for
    data beyond the usual while a checkpoint was written beside it (None: not shown)."""

    saves: tuple[Save, ...]
    blocking: Checkpoints | None
    share: float
    mount: str | None
    written: Written
    rate: Rate
    advice: Advice
    interference: Interference
    disturbance: float | None


def see_checkpoints(
    tables: Tables,
    timeline: Timeline,
    causes: Causes,
    losses: Losses,
    thresholds: Thresholds,
    is_short: bool,
) -> Checkpointing | None:
    """None where no checkpoint was written in training."""
    saves = find_saves(timeline, losses.units)
    if not saves:
        return None
    limits = thresholds.saves
    blocking = find_checkpoints(timeline, causes)
    sampled = blocking.mounts[0].mount if blocking is not None and blocking.mounts else None
    longest = max(saves, key=lambda one: one.writing_s)
    mount = mount_of(longest.path, tables.store, sampled)
    written = find_written(tables, timeline, saves)
    unit = Counter(one.unit for one in saves).most_common(1)[0][0]
    nodes = len(tables.store.nodes_expected) or len(tables.store.nodes)
    interference = find_interference(timeline, causes, limits)
    return Checkpointing(
        saves=saves,
        blocking=blocking,
        share=losses.share("ckpt"),
        mount=mount[0] if mount is not None else None,
        written=written,
        rate=find_rate(tables, timeline, saves, written, mount, limits),
        advice=advise([one for one in saves if one.unit == unit], nodes, is_short, limits),
        interference=interference,
        disturbance=_disturbance(interference, timeline, thresholds),
    )


def _disturbance(found: Interference, timeline: Timeline, thresholds: Thresholds) -> float | None:
    """What the extra waiting is of the node's training, where chance does not explain it."""
    if found.p is None or found.extra_s is None or found.p > thresholds.alignment.false_alarm:
        return None
    mine = [one.training_s for one in timeline.processes if str(one.node) == found.node]
    longest = max(mine, default=0.0)
    return max(0.0, found.extra_s) / longest if longest > 0 else None
