"""Which processes train as one: synchronous data parallelism seen from the outside.

Ranks of one synchronous job begin their steps together, whoever waits: a collective holds all of
them until the last has come. Ranks that train independently drift apart at the first uneven wait.
So processes are one unit when, joined by optimizer step, the differences of their step starts
(UTC, so across nodes; a constant clock difference cancels) stay within half a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.facts import ranks_of, whole
from slurm_io.analysis.inputs import StoreView
from slurm_io.analysis.thresholds import Lockstep
from slurm_io.analysis.timeline import Process, Timeline


@dataclass(frozen=True)
class Unit:
    """Processes whose losses are one: a synchronous group, or a single process."""

    unit: int
    procs: tuple[int, ...]

    @property
    def is_synchronous(self) -> bool:
        """More than one process, in lockstep."""
        return len(self.procs) > 1


def find_units(
    store: StoreView, timeline: Timeline, steps: pl.DataFrame, limits: Lockstep
) -> tuple[Unit, ...]:
    """Every process is in exactly one unit."""
    alone = _world_of_one(store)
    groups: list[list[int]] = []
    starts = {proc: _starts(steps, proc) for proc in timeline.by_proc}
    for process in sorted(timeline.processes, key=lambda process: -process.steps):
        home = next(
            (
                group
                for group in groups
                if (process.node, process.pid) not in alone
                and _fits(process, timeline.by_proc[group[0]], starts, limits)
            ),
            None,
        )
        if home is None:
            groups.append([process.proc])
        else:
            home.append(process.proc)
    return tuple(Unit(place, tuple(sorted(group))) for place, group in enumerate(groups))


def _world_of_one(store: StoreView) -> set[tuple[str, int]]:
    """(node, pid) of processes that said themselves that their world is one process."""
    return {
        (name, pid)
        for name, view in store.nodes.items()
        for rank in ranks_of(view)
        if rank.get("world_size") == 1 and (pid := whole(rank.get("pid"))) is not None
    }


def _starts(steps: pl.DataFrame, proc: int) -> pl.DataFrame:
    return steps.filter(pl.col("proc") == proc).select("step", "ts_ns", "gross_s").sort("step")


def _fits(
    process: Process, leader: Process, starts: dict[int, pl.DataFrame], limits: Lockstep
) -> bool:
    """Whether `process` keeps step with the group's first member."""
    if process.rank is not None and process.rank == leader.rank:
        return False  # the same rank twice: one run after another
    mine, theirs = starts[process.proc], starts[leader.proc]
    common = mine.join(theirs, on="step", suffix="_leader")
    enough = max(limits.min_common_steps, limits.min_common_share * mine.height)
    if common.height < enough:
        return False
    drift = common["ts_ns"] - common["ts_ns_leader"]
    middle, usual = drift.median(), common["gross_s_leader"].median()
    if not isinstance(middle, (int, float)) or not isinstance(usual, (int, float)):
        return False
    jitter_s = (drift - middle).abs().quantile(0.9)
    return jitter_s is not None and jitter_s / 1e9 <= limits.start_jitter_steps * usual
