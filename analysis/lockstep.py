"""Which processes train as one: synchronous data parallelism seen from the outside.

Ranks of one synchronous training begin their steps together, whoever waits: a collective holds all
of them until the last has come (:mod:`.in_step` says how that is told). A job may hold several such
groups, independent of one another: a sweep, an ensemble, a run and its restart. Each process is
put to the first group whose longest member it keeps step with; the same rank twice, or ranks that
said themselves that their worlds differ in size, are never one group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

import polars as pl

from slurm_io.analysis.facts import ranks_of, whole
from slurm_io.analysis.in_step import (
    Beats,
    beats_of,
    keeps_step,
    looks_apart,
    shift_by_clock,
)
from slurm_io.analysis.inputs import StoreView
from slurm_io.analysis.steps import LOSSES
from slurm_io.analysis.thresholds import Lockstep
from slurm_io.analysis.timeline import Process, Timeline

# How often step counts are compared at a shift: each costs milliseconds, and a sweep of hundreds of
# trainings has tens of thousands of pairs, none of which fits.
_MOST_TRIED = 300
_MOST_NEAR = 8  # of the groups that a glance leaves, the nearest


@dataclass(frozen=True)
class Unit:
    """Processes whose losses are one: a synchronous group, or a single process.

    `shifts`: what to add to a member's step numbers to get the group's; 0 where it is not named.
    """

    unit: int
    procs: tuple[int, ...]
    shifts: dict[int, int] = field(default_factory=dict)

    @property
    def is_synchronous(self) -> bool:
        """More than one process, in lockstep."""
        return len(self.procs) > 1


@dataclass
class _Group:
    leader: Process
    members: dict[int, int]  # proc -> shift
    ranks: set[int]
    world: int | None

    def may_take(self, process: Process, world: int | None) -> bool:
        """Whether nothing that the processes said speaks against it."""
        same_rank = process.rank is not None and process.rank in self.ranks
        return not same_rank and (None in (world, self.world) or world == self.world)

    def take(self, process: Process, shift: int, world: int | None) -> None:
        self.members[process.proc] = shift
        self.ranks |= {process.rank} if process.rank is not None else set()
        self.world = self.world if self.world is not None else world


def find_units(
    store: StoreView, timeline: Timeline, steps: pl.DataFrame, limits: Lockstep
) -> tuple[Unit, ...]:
    """Every process is in exactly one unit; the longest first."""
    worlds = world_sizes(store)
    beats = all_beats(steps, timeline)
    groups: list[_Group] = []
    tries = iter(range(_MOST_TRIED))
    for process in sorted(timeline.processes, key=lambda process: -process.steps):
        world = worlds.get((process.node, process.pid))
        home, shift = _home(process, world, groups, beats, limits, tries)
        if home is None:
            home = _Group(process, {}, set(), world)
            groups.append(home)
        home.take(process, shift, world)
    return tuple(
        Unit(
            place,
            tuple(sorted(group.members)),
            {proc: shift for proc, shift in group.members.items() if shift},
        )
        for place, group in enumerate(groups)
    )


def world_sizes(store: StoreView) -> dict[tuple[str, int], int]:
    """(node, pid) -> how many processes its world has, as it said itself."""
    return {
        (name, pid): size
        for name, view in store.nodes.items()
        for rank in ranks_of(view)
        if (pid := whole(rank.get("pid"))) is not None
        and (size := whole(rank.get("world_size"))) is not None
        and size > 0
    }


def _home(
    process: Process,
    world: int | None,
    groups: list[_Group],
    beats: dict[int, Beats],
    limits: Lockstep,
    tries: Iterator[int],
) -> tuple[_Group | None, int]:
    if world == 1:
        return None, 0
    open_to = [group for group in groups if group.may_take(process, world)]
    mine = beats[process.proc]
    seen = [(looks_apart(mine, beats[group.leader.proc]), group) for group in open_to]
    near = sorted((one for one in seen if one[0] < inf), key=lambda one: one[0])
    for _, group in near[:_MOST_NEAR]:
        if keeps_step(mine, beats[group.leader.proc], 0, limits, len(open_to)):
            return group, 0
    for group, _ in zip(open_to, tries, strict=False):
        theirs = beats[group.leader.proc]
        shift = shift_by_clock(mine, theirs)
        if shift and keeps_step(mine, theirs, shift, limits, len(open_to)):
            return group, shift
    return None, 0


def all_beats(steps: pl.DataFrame, timeline: Timeline) -> dict[int, Beats]:
    """Times by the clock of each node: two processes of one node may have set out from readings of
    it that differ."""
    own = pl.sum_horizontal(f"l_{name}" for name in LOSSES)
    nodes = {process.proc: process.node for process in timeline.processes}
    known = steps.filter(pl.col("proc").is_in(list(nodes))).with_columns(
        pl.col("proc").replace_strict(nodes, return_dtype=pl.String).alias("on"),
        own.alias("own_s"),
    )
    offset = (pl.col("ts_ns") - pl.col("t0")).first().over("on").fill_null(0)
    placed = known.with_columns((pl.col("t0") + offset).alias("at"))
    parts = placed.partition_by("proc", as_dict=True)
    return {
        proc: beats_of(parts[(proc,)] if (proc,) in parts else placed.clear(), node)
        for proc, node in nodes.items()
    }
