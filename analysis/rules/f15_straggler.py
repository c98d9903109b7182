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
Equal ranks hold in turn, each its fair part; of ranks that wait alike one may always be the last,
by a little, and is no straggler. Where rank 0 alone reads for all (dispatcher loaders)
no other rank reads, and there is nothing to compare. Ranks that train independently hold nobody. A
rank that computes longer is not seen here, for the others wait in the collective (F21).

Thresholds
----------
``thresholds.straggler_share`` (50 % of the lost time, and twice the fair part) among at least three
ranks, and waits 1.5 times the others', which no key changes; the loss itself at least
``thresholds.data_share`` (3 %) of training GPU time.
"""

from __future__ import annotations

import polars as pl

from slurm_io.analysis.holding import (
    OWN_CAUSES,
    Held,
    Holding,
    find_holding,
    largest_cause,
    over_others,
)
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rule_limits import Straggler
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    shortness,
    sure,
)
from slurm_io.model import LOCAL_CLUSTER

_NAMES = {
    "storage": "waiting for storage", "net": "waiting for the object store",
    "cpu": "preparing batches", "pipeline": "the loader's machinery",
    "unknown": "waiting for data for an unseen reason", "sleep": "a loader that slept",
    "ckpt": "blocking saves",
}  # fmt: skip


@RULES.register("f15_straggler")
class StragglerRank:
    """One rank or node holds the others."""

    code = "F15"
    title = "one rank or node holds all others"
    needs: Needs = "steps"

    def judge(self, picture: Picture) -> Answer:
        """A node speaks for its ranks where it has several."""
        limits = picture.thresholds.rules.straggler
        largest = max((len(unit.procs) for unit in picture.losses.units), default=0)
        if largest < limits.least_ranks:
            return Answer("quiet", "fewer than three ranks read in lockstep")
        lost = picture.losses.share(*OWN_CAUSES)
        if lost < picture.thresholds.shares.data_storage:
            return Answer("quiet", f"waits and saves took {lost:.1%} of training")
        holding = find_holding(picture.losses, picture.timeline)
        if holding is None or len(holding.unit.procs) < limits.least_ranks:
            return Answer("quiet", "fewer than three ranks hold one another")
        worst = holding.straggler(limits)
        if worst is None:
            share = holding.ranks[0].share
            return Answer("quiet", f"no rank held more than {share:.0%} of the lost time")
        ratio = over_others(picture.losses, picture.causes.rows, worst, holding.unit.procs)
        if ratio is not None and ratio < limits.over_others:
            reason = f"{worst.who} waits {ratio:.1f} times as long as the other ranks, no more"
            return Answer("quiet", reason)
        return Answer("fired", findings=(_finding(picture, worst, holding, lost, limits),))


def _finding(
    picture: Picture, worst: Held, holding: Holding, lost: float, limits: Straggler
) -> Finding:
    by_proc, procs = picture.timeline.by_proc, holding.unit.procs
    members = [by_proc[proc] for proc in worst.procs]
    cause = largest_cause(picture.losses, worst)
    samples = _samples(picture, worst, procs)
    agrees = samples is not None and samples >= limits.over_fair * worst.fair
    text = (
        f"{worst.who} held {worst.share:.0%} of the lost time of {len(procs)} ranks, its fair part "
        f"is {worst.fair:.0%}; it came last in {worst.steps} of {holding.steps} steps"
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
        title=f"{worst.who} holds all others",
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


def _samples(picture: Picture, worst: Held, procs: tuple[int, ...]) -> float | None:
    """The straggler's part of the busy samples in data waits; None when there are too few."""
    busy = pl.sum_horizontal("storage", "net", "cpu")
    seen = picture.causes.evidence.filter(pl.col("proc").is_in(procs))
    sums = dict(seen.group_by("proc").agg(busy.sum()).iter_rows())
    total = sum(sums.values())
    if total < picture.thresholds.enough.wait_samples:
        return None
    return float(sum(sums.get(proc, 0.0) for proc in worst.procs) / total)


def _commands(picture: Picture, nodes: tuple[str, ...]) -> tuple[str, ...]:
    job = picture.store.job
    if job is None or job.cluster == LOCAL_CLUSTER or len(picture.store.nodes) < 2:
        return ()
    return (f"sbatch --exclude={','.join(nodes)} JOB_SCRIPT", f"scontrol show node {nodes[0]}")
