"""Who held a synchronous group: which rank, or which node, and in how many steps.

The holder of a step is the rank with the largest wait or save of its own (:mod:`.losses`). A rank
is the sharper answer; a node is named in its stead where its other ranks hold a good part too, for
then the trouble does not stay with one rank. Equal ranks hold in turn, each its fair part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import polars as pl

from slurm_io.analysis.lockstep import Unit
from slurm_io.analysis.losses import Losses
from slurm_io.analysis.rule_limits import Straggler
from slurm_io.analysis.timeline import Process, Timeline

# What a rank loses by itself, waiting for data or saving, whatever the cause.
OWN_CAUSES = ("storage", "net", "cpu", "pipeline", "unknown", "sleep", "ckpt")
_NODE_ADDS = 0.2  # of the lost time, beyond that of its worst rank: then it is the node
_HELD_OF_STEP = 0.01  # of a step that the holder came later than the next one
_TOLD_SHARE = 0.01  # of training lost, below which nobody asks by whom


@dataclass(frozen=True)
class Held:
    """A rank, or the ranks of one node: `share` of the group's lost time it held, `fair` its part
    were all alike, `steps` in which it came later than the next rank by 1 % of the step and more.
    """

    who: str
    procs: tuple[int, ...]
    share: float
    fair: float
    steps: int

    @property
    def is_node(self) -> bool:
        """Whether it speaks for several ranks."""
        return len(self.procs) > 1


@dataclass(frozen=True)
class Holding:
    """One synchronous group. `ranks` and `nodes` (those with several of its ranks), most first."""

    unit: Unit
    lost_gpu_s: float
    steps: int
    ranks: tuple[Held, ...]
    nodes: tuple[Held, ...]

    def straggler(self, limits: Straggler) -> Held | None:
        """The rank or node that held most of the lost time, and more than its fair part."""
        rank, node = (_most(each, limits) for each in (self.ranks, self.nodes))
        if rank is None or (node is not None and node.share - rank.share >= _NODE_ADDS):
            return node
        return rank


def find_holding(losses: Losses, timeline: Timeline) -> Holding | None:
    """The synchronous group that lost most; None where there is none, or nothing was lost."""
    own = pl.sum_horizontal(f"l_{cause}" for cause in OWN_CAUSES)
    by_unit = losses.unit_steps.group_by("unit").agg((own * pl.col("gpus")).sum().alias("lost"))
    lost = dict(by_unit.iter_rows())
    together = [unit for unit in losses.units if unit.is_synchronous]
    unit = max(together, key=lambda one: lost.get(one.unit, 0.0), default=None)
    if unit is None or lost.get(unit.unit, 0.0) <= 0:
        return None
    steps = losses.unit_steps.filter(pl.col("unit") == unit.unit)
    late = pl.col("own_s") - pl.col("second_s") >= _HELD_OF_STEP * pl.col("net_s")
    found = steps.group_by("holder").agg(own.sum().alias("lost"), late.sum().alias("steps"))
    mine = {proc: (lost_s, count) for proc, lost_s, count in found.iter_rows()}
    nodes: dict[str, list[int]] = defaultdict(list)
    for proc in unit.procs:
        nodes[timeline.by_proc[proc].node].append(proc)
    ranks = [_held(_name(timeline.by_proc[proc]), [proc], mine, unit) for proc in unit.procs]
    whole = [
        _held(f"node {node}", procs, mine, unit)
        for node, procs in sorted(nodes.items())
        if 1 < len(procs) < len(unit.procs)
    ]
    return Holding(unit, lost[unit.unit], steps.height, _ordered(ranks), _ordered(whole))


def time_of(losses: Losses, held: Held, cause: str) -> float:
    """Seconds of one of :data:`OWN_CAUSES` in the steps it held."""
    steps = losses.unit_steps.filter(pl.col("holder").is_in(held.procs))
    return float(steps[f"l_{cause}"].sum())


def largest_cause(losses: Losses, held: Held) -> str:
    """The cause by which it held the others longest."""
    return max(OWN_CAUSES, key=lambda cause: time_of(losses, held, cause))


def over_others(
    losses: Losses, waits: pl.DataFrame, held: Held, procs: Sequence[int]
) -> float | None:
    """Its ranks' data waits over those of the others (medians); None where it holds them by saves,
    or nobody else waits at all. `waits`: rows of the causes, with proc and ``l_<cause>``.

    Whoever is last by a hair's breadth holds the step, and it would be the same one every time.
    """
    if largest_cause(losses, held) == "ckpt":
        return None
    own = pl.sum_horizontal(f"l_{cause}" for cause in OWN_CAUSES if cause != "ckpt")
    sums = waits.group_by("proc").agg(own.sum().alias("own"))
    waited = dict(sums.select("proc", "own").iter_rows())
    others = [waited.get(proc, 0.0) for proc in procs if proc not in held.procs]
    usual = median(others) if others else 0.0
    return median(waited.get(proc, 0.0) for proc in held.procs) / usual if usual > 0 else None


def holder_report(
    losses: Losses, waits: pl.DataFrame, timeline: Timeline, limits: Straggler
) -> dict[str, Any] | None:
    """``holder`` of the report; None where nobody can hold anybody, or next to nothing was lost.
    `waits`: rows of the causes.

    ``{level: rank | node | in turn, rank, node, share, steps, of_steps, ranks: [{rank, node, share,
    steps}], text}``; `share` is of the time the group lost, `ranks` the eight that held most.
    """
    holding = find_holding(losses, timeline)
    if holding is None or holding.lost_gpu_s < _TOLD_SHARE * losses.base_gpu_s:
        return None
    worst = holding.straggler(limits)
    if worst is not None:
        ratio = over_others(losses, waits, worst, holding.unit.procs)
        if ratio is not None and ratio < limits.over_others:
            worst = None
    first = worst or holding.ranks[0]
    one = timeline.by_proc[first.procs[0]]
    level: Literal["rank", "node", "in turn"] = (
        "in turn" if worst is None else "node" if worst.is_node else "rank"
    )
    return {
        "level": level,
        "rank": None if first.is_node else one.rank,
        "node": one.node,
        "share": round(first.share, 4),
        "steps": first.steps,
        "of_steps": holding.steps,
        "ranks": [_line(held, timeline) for held in holding.ranks[:8] if held.share > 0],
        "text": _text(holding, first, level),
    }


def _line(held: Held, timeline: Timeline) -> dict[str, Any]:
    process = timeline.by_proc[held.procs[0]]
    return {
        "rank": process.rank,
        "node": process.node,
        "share": round(held.share, 4),
        "steps": held.steps,
    }


def _text(holding: Holding, first: Held, level: str) -> str:
    if level == "in turn" and not first.steps:
        return f"no rank in particular: all {len(holding.unit.procs)} wait alike"
    told = (
        f"{first.share:.0%} of what {len(holding.unit.procs)} ranks lost together, last in "
        f"{first.steps} of {holding.steps} steps"
    )
    if level == "in turn":
        return f"the ranks in turn; most by {first.who}: {told}"
    return f"{first.who}: {told}"


def _name(process: Process) -> str:
    return f"{process.label} on {process.node}"


def _held(
    who: str, procs: Sequence[int], mine: Mapping[int, tuple[float, int]], unit: Unit
) -> Held:
    total = sum(lost for lost, _ in mine.values())
    lost, steps = (sum(mine.get(proc, (0.0, 0))[place] for proc in procs) for place in (0, 1))
    fair = len(procs) / len(unit.procs)
    return Held(who, tuple(procs), float(lost) / total if total > 0 else 0.0, fair, int(steps))


def _ordered(held: Sequence[Held]) -> tuple[Held, ...]:
    return tuple(sorted(held, key=lambda one: -one.share))


def _most(held: Sequence[Held], limits: Straggler) -> Held | None:
    enough = [
        one
        for one in held
        if one.share >= limits.held_share and one.share >= limits.over_fair * one.fair
    ]
    return max(enough, key=lambda one: one.share, default=None)
