"""F15: one rank or node holds all the others.

What it flags
-------------
In a synchronous job most of the lost time is held by one rank, or by the ranks of one node.

Why it matters
--------------
Every step takes as long as its slowest rank. One node with a bad link, a full disk or a cold cache
costs the job as much as if all had it, and the average over ranks hides it.

Evidence
--------
For each step the rank with the largest wait or save of its own holds the others; the share of the
lost time that one rank, or the ranks of one node, held in this way. Wait samples of the holder
against those of the others are the second, independent signal: they come from outside the process.

What to do
----------
Leave the node out and run again; compare it with its neighbours (link, mount options, disk, other
load). When the trouble stays with the rank and not with the node, look at the rank's part of the
data: an unequal shard, a larger file.

Known false alarms
------------------
Equal ranks hold in turn, each its fair part. Where rank 0 alone reads for all (dispatcher loaders)
no other rank reads, and there is nothing to compare. Ranks that train independently hold nobody. A
rank that computes longer is not seen here, for the others wait in the collective (F21).

Thresholds
----------
``thresholds.straggler_share`` (50 % of the lost time, and twice the fair part) among at least three
ranks; the loss itself at least ``thresholds.data_share`` (3 %) of training GPU time.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rule_limits import Straggler
from slurm_io.analysis.rules.base import (
    OWN_CAUSES,
    RULES,
    Answer,
    Evidence,
    Finding,
    Place,
    shortness,
    sure,
    too_little,
)
from slurm_io.analysis.timeline import Process
from slurm_io.model import LOCAL_CLUSTER

_NODE_ADDS = 0.2  # of the lost time, beyond that of its worst rank: then it is the node
_NAMES = {
    "storage": "waiting for storage", "net": "waiting for the object store",
    "cpu": "preparing batches", "pipeline": "the loader's machinery",
    "unknown": "waiting for data for an unseen reason", "sleep": "a loader that slept",
    "ckpt": "blocking saves",
}  # fmt: skip


@dataclass(frozen=True)
class _Held:
    """Who held how much of a synchronous unit's lost time."""

    who: str
    procs: tuple[int, ...]
    share: float
    fair: float


@RULES.register("f15_straggler")
class StragglerRank:
    """One rank or node holds the others."""

    code = "F15"
    title = "one rank or node holds all others"

    def judge(self, picture: Picture) -> Answer:
        """A node speaks for its ranks where it has several."""
        refusal = too_little(picture)
        if refusal is not None:
            return refusal
        limits = picture.thresholds.rules.straggler
        unit = max(picture.losses.units, key=lambda one: len(one.procs), default=None)
        if unit is None or len(unit.procs) < limits.least_ranks:
            return Answer("quiet", "fewer than three ranks read in lockstep")
        lost = picture.losses.share(*OWN_CAUSES)
        if lost < picture.thresholds.shares.data_storage:
            return Answer("quiet", f"waits and saves took {lost:.1%} of training")
        held = _held(picture, unit.unit, unit.procs)
        worst = _straggler(held, limits)
        if worst is None:
            most = max(held, key=lambda one: one.share, default=None)
            share = most.share if most is not None else 0.0
            return Answer("quiet", f"no rank held more than {share:.0%} of the lost time")
        return Answer("fired", findings=(_finding(picture, worst, unit.procs, lost, limits),))


def _held(picture: Picture, unit: int, procs: tuple[int, ...]) -> list[_Held]:
    """Ranks, then nodes with several of the unit's ranks."""
    steps = picture.losses.unit_steps.filter(pl.col("unit") == unit)
    own = pl.sum_horizontal(f"l_{cause}" for cause in OWN_CAUSES)
    sums = dict(steps.group_by("holder").agg(own.sum()).iter_rows())
    total = sum(sums.values())
    if total <= 0:
        return []
    by_proc = picture.timeline.by_proc
    nodes: dict[str, list[int]] = defaultdict(list)
    for proc in procs:
        nodes[by_proc[proc].node].append(proc)
    ranks = [
        _Held(by_proc[proc].label, (proc,), sums.get(proc, 0.0) / total, 1 / len(procs))
        for proc in procs
    ]
    whole = [
        _Held(
            f"node {node}",
            tuple(mine),
            sum(sums.get(proc, 0.0) for proc in mine) / total,
            len(mine) / len(procs),
        )
        for node, mine in sorted(nodes.items())
        if 1 < len(mine) < len(procs)
    ]
    return [*ranks, *whole]


def _straggler(held: list[_Held], limits: Straggler) -> _Held | None:
    """The rank that holds enough, for it is the sharper answer; the node where its other ranks
    hold a good part too."""
    enough = [
        one
        for one in held
        if one.share >= limits.held_share and one.share >= limits.over_fair * one.fair
    ]
    ranks = [one for one in enough if len(one.procs) == 1]
    rank = max(ranks, key=lambda one: one.share, default=None)
    nodes = [one for one in enough if len(one.procs) > 1]
    node = max(nodes, key=lambda one: one.share, default=None)
    if rank is None or (node is not None and node.share - rank.share >= _NODE_ADDS):
        return node
    return rank


def _finding(
    picture: Picture, worst: _Held, procs: tuple[int, ...], lost: float, limits: Straggler
) -> Finding:
    by_proc = picture.timeline.by_proc
    members = [by_proc[proc] for proc in worst.procs]
    cause = max(OWN_CAUSES, key=lambda name: _of_cause(picture, worst, name))
    samples = _samples(picture, worst, procs)
    agrees = samples is not None and samples >= limits.over_fair * worst.fair
    text = (
        f"{worst.who} held {worst.share:.0%} of the lost time of {len(procs)} ranks; its fair part "
        f"is {worst.fair:.0%}"
    )
    evidence = [
        Evidence(text, "held_share", worst.share, limits.held_share),
        Evidence(
            f"waits and saves took {lost:.1%} of training GPU time, most of the straggler's in "
            f"{_NAMES[cause]}",
            "lost_share", lost, picture.thresholds.shares.data_storage,
        ),
    ]  # fmt: skip
    if samples is not None:
        told = f"{samples:.0%} of all samples that found a loader at work were its own"
        evidence.append(Evidence(told, "sample_share", samples, limits.over_fair * worst.fair))
    nodes = tuple(sorted({one.node for one in members}))
    return Finding(
        rule="F15",
        severity="warn",
        confidence=sure(1 + agrees),
        title=f"{worst.who}{_on(worst, members)} holds all others",
        lost_gpu_s=None,  # part of what F01 and F04 count
        where=Place(
            nodes=nodes,
            ranks=tuple(sorted(one.rank for one in members if one.rank is not None)),
        ),
        evidence=(*evidence, *shortness(picture)),
        remedy="leave the node out and run again; if the trouble moves with the rank, look at its "
        "part of the data, if it stays with the node, at the node",
        commands=_commands(picture, nodes),
    )


def _of_cause(picture: Picture, worst: _Held, cause: str) -> float:
    steps = picture.losses.unit_steps.filter(pl.col("holder").is_in(worst.procs))
    return float(steps[f"l_{cause}"].sum())


def _samples(picture: Picture, worst: _Held, procs: tuple[int, ...]) -> float | None:
    """The straggler's part of the busy samples in data waits; None when there are too few."""
    busy = pl.sum_horizontal("storage", "net", "cpu")
    seen = picture.causes.evidence.filter(pl.col("proc").is_in(procs))
    sums = dict(seen.group_by("proc").agg(busy.sum()).iter_rows())
    total = sum(sums.values())
    if total < picture.thresholds.enough.wait_samples:
        return None
    return float(sum(sums.get(proc, 0.0) for proc in worst.procs) / total)


def _on(worst: _Held, members: list[Process]) -> str:
    return f" on {members[0].node}" if len(worst.procs) == 1 else ""


def _commands(picture: Picture, nodes: tuple[str, ...]) -> tuple[str, ...]:
    job = picture.store.job
    if job is None or job.cluster == LOCAL_CLUSTER or len(picture.store.nodes) < 2:
        return ()
    return (f"sbatch --exclude={','.join(nodes)} JOB_SCRIPT", f"scontrol show node {nodes[0]}")
