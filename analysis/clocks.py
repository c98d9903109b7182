"""How far the clocks of nodes differ, from the steps that their ranks made together.

A collective ends for all ranks at one moment, and the next step begins soon after: of each node the
first of its ranks to begin, step by step, against the same of another node. The median of the
differences is the clock's offset. Its uncertainty is half of the span of the middle 80 % of them,
what the offset moved from the first third of the steps to the last, and what a rank may do on its
own between the exchange and its next batch: as far as the ranks of one node show it by differing
from one another, a tenth of a step where a node has one rank.

An offset is applied only where it is larger than the report resolves and three times its
uncertainty: a wrong correction is worse than none. The reference is the node in the middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from slurm_io.analysis.batches import NS
from slurm_io.analysis.in_step import median_of
from slurm_io.analysis.lockstep import Unit, all_beats
from slurm_io.analysis.thresholds import Lockstep
from slurm_io.analysis.timeline import Timeline

_LEAST_STEPS = 20
_STEPS_ASKED = 2000  # of a group, evenly spread
_OF_ONE_RANK = 0.1  # of a step: what one rank may do by itself before its next batch


@dataclass(frozen=True)
class Offset:
    """A node's clock less that of `reference`, in seconds, from so many shared steps."""

    node: str
    reference: str
    offset_s: float
    uncertainty_s: float
    steps: int

    def is_sure(self, limits: Lockstep) -> bool:
        """Whether it is far enough from zero to be corrected."""
        least = max(limits.clock_offset_s, limits.clock_sure * self.uncertainty_s)
        return abs(self.offset_s) >= least

    def is_told(self, limits: Lockstep) -> bool:
        """Whether it is large enough to be told."""
        return abs(self.offset_s) >= limits.clock_offset_s

    def text(self, limits: Lockstep) -> str:
        """For people."""
        way = "ahead of" if self.offset_s > 0 else "behind"
        figures = f"± {self.uncertainty_s:.2f} s, from {self.steps} steps made together"
        then = (
            "its ranks' times are told by the other's clock"
            if self.is_sure(limits)
            else "too uncertain to correct, so times of the two do not compare"
        )
        return f"{abs(self.offset_s):.2f} s {way} {self.reference}'s ({figures}): {then}"


def find_offsets(
    steps: pl.DataFrame, timeline: Timeline, units: Sequence[Unit]
) -> tuple[Offset, ...]:
    """One entry for each node that shares steps with another; groups with most nodes first."""
    by_proc = timeline.by_proc
    found: dict[str, Offset] = {}
    wide = [unit for unit in units if len({by_proc[proc].node for proc in unit.procs}) > 1]
    beats = all_beats(steps, timeline) if wide else {}
    for unit in sorted(wide, key=lambda one: -len({by_proc[proc].node for proc in one.procs})):
        starts = pl.concat(
            beats[proc].frame.select(
                pl.lit(proc).alias("proc"), pl.lit(by_proc[proc].node).alias("node"), "at",
                "gross_s", step=pl.col("step") + unit.shifts.get(proc, 0),
            )
            for proc in unit.procs
        )  # fmt: skip
        for offset in _of_unit(starts, list(found)):
            found.setdefault(offset.node, offset)
    return tuple(found[node] for node in sorted(found))


def _of_unit(starts: pl.DataFrame, known: Sequence[str]) -> list[Offset]:
    """Against the node in the middle, or one whose clock is known from another group."""
    steps = starts["step"].unique().sort()
    asked = steps.gather_every(max(1, len(steps) // _STEPS_ASKED))
    starts = starts.filter(pl.col("step").is_in(asked.implode()))
    firsts = starts.group_by("node", "step").agg(pl.col("at").min()).sort("step")
    by_node = {
        str(node): rows for (node,), rows in firsts.partition_by("node", as_dict=True).items()
    }
    nodes = sorted(by_node)
    reference = next((node for node in nodes if node in known), None)
    if reference is None:
        rough = {node: median_of(_apart(by_node[node], by_node[nodes[0]])) for node in nodes}
        reference = sorted(nodes, key=lambda node: rough[node])[(len(nodes) - 1) // 2]
    own = _of_ranks(starts)
    found = []
    for node in nodes:
        apart = _apart(by_node[node], by_node[reference])
        if node == reference or len(apart) < _LEAST_STEPS:
            continue
        third = len(apart) // 3
        span = float((apart.quantile(0.9) or 0.0) - (apart.quantile(0.1) or 0.0))
        moved = abs(median_of(apart[-third:]) - median_of(apart[:third]))
        uncertainty = span / 2 + moved + max(own[node], own[reference])
        found.append(Offset(node, reference, median_of(apart), uncertainty, len(apart)))
    return found


def _apart(mine: pl.DataFrame, reference: pl.DataFrame) -> pl.Series:
    """Seconds, by step."""
    both = mine.join(reference, on="step", suffix="_reference", maintain_order="left")
    return both.select((pl.col("at") - pl.col("at_reference")) / NS).to_series()


def _of_ranks(starts: pl.DataFrame) -> dict[str, float]:
    """node -> how far its ranks are apart, as a rule, in seconds: they have one clock."""
    late = (pl.col("at") - pl.col("at").min().over("node", "step")) / NS
    medians = starts.with_columns(late.alias("late")).group_by("node", "proc").agg(
        pl.col("late").median(), pl.col("gross_s").median()
    )  # fmt: skip
    alone = _OF_ONE_RANK * pl.col("gross_s").max()
    own = pl.when(pl.len() > 1).then(pl.col("late").max()).otherwise(alone)
    return dict(medians.group_by("node").agg(own).iter_rows())


def corrected(frame: pl.DataFrame, nodes: pl.Expr, offsets: Sequence[Offset]) -> pl.DataFrame:
    """`frame` with ts_ns by the reference's clock; `nodes` says of each row whose it is."""
    if not offsets:
        return frame
    moved = nodes.cast(pl.String).replace_strict(
        shifts_ns(offsets), default=0, return_dtype=pl.Int64
    )
    return frame.with_columns(pl.col("ts_ns") + moved)


def shifts_ns(offsets: Sequence[Offset]) -> dict[str, int]:
    """node -> what to add to its UTC times."""
    return {one.node: -round(one.offset_s * NS) for one in offsets}


def corrected_timeline(timeline: Timeline, offsets: Sequence[Offset]) -> Timeline:
    """All UTC times of the timeline by the reference's clock."""
    if not offsets:
        return timeline
    moved = shifts_ns(offsets)
    return replace(
        timeline,
        processes=tuple(
            replace(one, opens_ts_ns=one.opens_ts_ns + moved.get(one.node, 0))
            for one in timeline.processes
        ),
        rows=corrected(timeline.rows, pl.col("node"), offsets),
        events=corrected(timeline.events, of_procs(timeline), offsets),
    )


def of_procs(timeline: Timeline) -> pl.Expr:
    """The node of each row's proc."""
    nodes = {process.proc: process.node for process in timeline.processes}
    return pl.col("proc").replace_strict(nodes, default="", return_dtype=pl.String)
