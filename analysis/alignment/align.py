"""Drops of throughput beside slow storage, and what follows: aligned, apart, or not known.

*aligned*: the two meet more often than chance allows, and storage explains a fair part of the
drops. *apart*: nothing points that way, though storage was looked at on every node and would have
shown in at least half of the drops: then something else makes them. *open*: neither can be said.
*untested*: too short, too few drops, no latencies; the reason says which.

Each node's drops are held against its own latencies, by its own clock: clocks of different nodes
are never compared. In a synchronous job every node drops when one of them does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from slurm_io.analysis.alignment.drops import Bins, Drops, cut_into_bins, find_drops
from slurm_io.analysis.alignment.latencies import Latencies, find_latencies
from slurm_io.analysis.alignment.shift_test import (
    Marks,
    core,
    count_runs,
    episodes,
    hit_by_chance,
    reach_of,
    runs_hit,
    shift_test,
)
from slurm_io.analysis.causes import Causes
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.lockstep import Unit
from slurm_io.analysis.read_sources import ReadMounts
from slurm_io.analysis.shares import wilson
from slurm_io.analysis.thresholds import Alignment as Limits
from slurm_io.analysis.timeline import Timeline
from slurm_io.analysis.witness import Witness

State = Literal["aligned", "apart", "open", "untested"]
NAME = "alignment"
_METRIC = "alignment_lift"
_MOST_SPIKES = 0.5  # of the bins: above, slow is what is usual


@dataclass(frozen=True)
class Meeting:
    """One series of latencies against its node's drops.

    `met` of `drops` hold a spike, `by_chance` is their mean number over all shifts; `lift`: share
    of spikes among bins of drops over that among others (None without spikes elsewhere to compare
    with); `looked`: share of the drops' bins that had a row.
    """

    latencies: Latencies
    drops: int
    met: int
    by_chance: float
    lift: float | None
    looked: float

    @property
    def explained(self) -> float:
        """Share of the drops that meet a spike beyond chance; below 0 where fewer do."""
        return (self.met - self.by_chance) / self.drops


@dataclass(frozen=True)
class Alignment:
    """`reason` says why the state is open or untested. `drops`: of the node with most; None where
    throughput could not be followed. `p`: None where nothing was tested."""

    state: State
    reason: str
    drops: int | None = None
    p: float | None = None
    best: Meeting | None = None
    meetings: tuple[Meeting, ...] = ()
    explained: float | None = None
    tested_s: int | None = None

    @property
    def text(self) -> str:
        """One sentence for people."""
        if self.state == "aligned" and self.best is not None:
            one = self.best
            return (
                f"{one.met} of {one.drops} drops of throughput met slow reads ({_what(one)}); by "
                f"chance {one.by_chance:.1f} would (p {self.p:.3f})"
            )
        if self.state == "apart":
            most = max((one.met for one in self.meetings), default=0)
            return (
                f"{self.drops} drops of throughput do not line up with slow storage: at most "
                f"{most} met a slow read, as many as chance has it"
            )
        if self.state == "open":
            return (
                f"{self.drops} drops of throughput, storage neither shown nor ruled out: "
                f"{self.reason}"
            )
        return self.reason


def untested(reason: str, drops: int | None = None) -> Alignment:
    """Nothing could be tested."""
    return Alignment("untested", reason, drops)


def align(
    tables: Tables,
    timeline: Timeline,
    causes: Causes,
    steps: pl.DataFrame,
    units: Sequence[Unit],
    where: Mapping[str, ReadMounts],
    local: frozenset[str],
    limits: Limits,
) -> Alignment:
    """`steps`: of :func:`..steps.find_steps`; `where`: the mounts that readers waited for."""
    if not timeline.processes:
        return untested("no training batches were recorded (hook)")
    bins, every = cut_into_bins(timeline, causes.phases, limits.most_bins, limits.most_seconds)
    reach = reach_of([one.length for one in bins.values()], limits.least_reach, limits.most_reach)
    if reach is None:
        shortest = min((one.length * one.width for one in bins.values()), default=0)
        return untested(
            f"{shortest} s of training behind the warm-up; drops and latencies can be lined up "
            f"from {3 * limits.least_reach} s on"
        )
    drops = find_drops(steps, timeline, units, bins, causes.phases, limits)
    counted = {name: _episodes(one, reach) for name, one in drops.items()}
    most = max(map(count_runs, counted.values()), default=0)
    if most == 0:
        return untested(f"throughput never fell by {limits.drop:.0%}", 0)
    if most < limits.least_episodes:
        return untested(
            f"throughput fell {most} time{'s' * (most != 1)}: {limits.least_episodes} are needed",
            most,
        )
    latencies = find_latencies(tables, causes, bins, every, where, local, limits)
    if not latencies:
        return untested("no read latencies were recorded", most)
    unseen = _unseen(latencies, where, bins, local)
    if unseen is None and causes.samples.is_empty():
        unseen = "no wait samples say which mounts are read"
    return _judge(latencies, drops, counted, most, reach, unseen, limits)


def hear_alignment(found: Alignment) -> Witness:
    """As a witness of storage. What is made from wait samples is no second signal."""
    lift = found.best.lift if found.best is not None else None
    if found.state == "aligned" and found.best is not None:
        agrees = True if found.best.latencies.is_counter else None
        return Witness(NAME, agrees, found.text, _METRIC, lift)
    return Witness(NAME, False if found.state == "apart" else None, found.text, _METRIC, lift)


def _episodes(one: Drops, reach: int) -> int:
    return episodes(core(one.marks, one.bins.length, reach))


def _judge(
    latencies: list[Latencies],
    drops: Mapping[str, Drops],
    counted: Mapping[str, int],
    most: int,
    reach: int,
    unseen: str | None,
    limits: Limits,
) -> Alignment:
    usable = [one for one in latencies if _has_spikes(one, limits)][: limits.most_series]
    pairs = [
        Marks(drops[one.node].bins.length, drops[one.node].marks, one.spikes, one.known)
        for one in usable
    ]
    met = shift_test(pairs, reach)
    of_dropping = [one for one in latencies if counted[one.node]]
    meetings = tuple(
        _meeting(one, drops[one.node], counted[one.node], reach) for one in of_dropping
    )
    best = meetings[of_dropping.index(usable[met.best])] if met.best is not None else None
    explained = min(1.0, max(0.0, sum(_by_node(meetings).values())))
    width = next(iter(drops.values())).bins.width
    tested_s = width * min(one.bins.length for one in drops.values())
    state, reason = _state(met.p, best, meetings, explained, unseen, limits)
    return Alignment(state, reason, most, met.p, best, meetings, explained, tested_s)


def _has_spikes(one: Latencies, limits: Limits) -> bool:
    enough = count_runs(episodes(one.spikes)) >= limits.least_episodes
    return enough and one.spikes.bit_count() <= _MOST_SPIKES * one.known.bit_count()


def _meeting(one: Latencies, drops: Drops, runs: int, reach: int) -> Meeting:
    inside = core(drops.marks, drops.bins.length, reach)
    others = core(drops.judged, drops.bins.length, reach) & ~drops.marks
    rate = _rate(one, inside)
    usual = _rate(one, others)
    return Meeting(
        latencies=one,
        drops=count_runs(runs),
        met=runs_hit(runs, one.spikes),
        by_chance=hit_by_chance(runs, one.spikes, reach),
        lift=rate / usual if rate is not None and usual else None,
        looked=(inside & one.looked).bit_count() / max(1, inside.bit_count()),
    )


def _rate(one: Latencies, bins: int) -> float | None:
    """Share of spikes among `bins` that had a latency; at least one spike is imagined, so that a
    lift over none at all stays a number."""
    known = (one.known & bins).bit_count()
    return max(1, (one.spikes & bins).bit_count()) / known if known else None


def _by_node(meetings: Sequence[Meeting]) -> dict[str, float]:
    """What the best series of each node explains."""
    found: dict[str, float] = {}
    for one in meetings:
        node = one.latencies.node
        found[node] = max(found.get(node, one.explained), one.explained)
    return found


def _state(
    p: float | None,
    best: Meeting | None,
    meetings: Sequence[Meeting],
    explained: float,
    unseen: str | None,
    limits: Limits,
) -> tuple[State, str]:
    if p is not None and p <= limits.false_alarm and best is not None:
        strong = best.lift is None or best.lift >= limits.lift
        if strong and explained >= limits.explained:
            return "aligned", ""
        return "open", f"drops meet slow reads beyond chance, but only {explained:.0%} of them"
    if unseen is not None:
        return "open", unseen
    if any(one.looked < limits.looked_share for one in _most_looked(meetings)):
        return "open", "latencies are missing in too many of the drops"
    if p is not None and p <= limits.apart_p:
        return "open", f"drops and slow reads meet often, but chance could do it (p {p:.2f})"
    may = max(
        (wilson(one.met / one.drops, one.drops, limits.interval_z)[1] for one in meetings),
        default=1.0,
    )
    if may >= limits.apart_share or explained >= limits.apart_share:
        return "open", f"up to {may:.0%} of the drops may have met slow reads"
    return "apart", ""


def _most_looked(meetings: Sequence[Meeting]) -> list[Meeting]:
    """Of each node the series with most rows in drops."""
    found: dict[str, Meeting] = {}
    for one in meetings:
        kept = found.get(one.latencies.node)
        if kept is None or one.looked > kept.looked:
            found[one.latencies.node] = one
    return list(found.values())


def _unseen(
    latencies: Sequence[Latencies],
    where: Mapping[str, ReadMounts],
    trained: Mapping[str, Bins],
    local: frozenset[str],
) -> str | None:
    """What of the storage that is waited for has no latencies; None where all of it has."""
    for node, mounts in sorted(where.items()):
        mine = [one for one in latencies if one.node == node]
        if node not in trained:
            continue
        if not mine:
            return f"{node} has no read latencies"
        if any(not one.is_counter for one in mine) or not mounts.seen:
            continue
        for mount, fstype in mounts.mounts:
            told = any(mount == one.mount or fstype == one.fstype for one in mine)
            if not told and not (fstype in local and any(one.mount is None for one in mine)):
                return f"{mount} on {node} has no read latencies"
    return None


def _what(one: Meeting) -> str:
    series = one.latencies
    slow = f", {series.spike_ms:.0f} ms" if series.spike_ms is not None else ""
    return f"{series.name} on {series.node}{slow}, usually {series.usual_ms:.1f} ms"
