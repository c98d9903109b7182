"""How many GPUs wait when a process waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_io.analysis.batches import NS
from slurm_io.analysis.facts import ranks_of, whole
from slurm_io.analysis.inputs import StoreView
from slurm_io.analysis.lockstep import Unit, world_sizes
from slurm_io.analysis.timeline import Process, Timeline


@dataclass(frozen=True)
class Gpus:
    """GPUs of each process (proc -> number); `known` is False where one per rank was assumed."""

    of_proc: dict[int, float]
    known: bool
    total: int | None


def count_gpus(store: StoreView, timeline: Timeline, units: Sequence[Unit] = ()) -> Gpus:
    """From the job's ``gpus_on_node`` shared over the node's ranks that ran at the same time.

    Ranks that never read (tensor or pipeline parallel, all but the first with a dispatcher) hold
    GPUs too: the readers of a node stand for all of its GPUs, and a synchronous group for those of
    the ranks of its world that read nothing on nodes without a reader.
    """
    on_node = store.job.gpus_on_node if store.job is not None else None
    known = bool(on_node and on_node > 0)
    if known:
        assert on_node is not None
        share = _shared(timeline, on_node)
    else:
        share = {process.proc: 1.0 for process in timeline.processes}
    for unit in units:
        more = _of_silent(
            _silent(store, timeline, unit, units), on_node if known else None, timeline
        )
        for proc in unit.procs:
            share[proc] += more / len(unit.procs)
    return Gpus(share, known, on_node * len(store.nodes) if known and on_node else None)


def _shared(timeline: Timeline, on_node: int) -> dict[int, float]:
    by_node: dict[str, list[Process]] = defaultdict(list)
    for process in timeline.processes:
        by_node[process.node].append(process)
    return {
        process.proc: on_node / _most_at_once(process, by_node[process.node])
        for process in timeline.processes
    }


def _most_at_once(process: Process, others: list[Process]) -> int:
    """Processes of the node that trained in this one's window (itself included)."""
    return sum(
        other.opens < process.closes and other.closes > process.opens or other is process
        for other in others
    )


def _of_silent(nodes: dict[int, str], on_node: int | None, timeline: Timeline) -> float:
    """GPUs of nodes that have no reader; without their number one for each silent rank."""
    if on_node is None:
        return float(len(nodes))
    reading = {process.node for process in timeline.processes}
    return float(on_node * len(set(nodes.values()) - reading))


def _silent(
    store: StoreView, timeline: Timeline, unit: Unit, units: Sequence[Unit]
) -> dict[int, str]:
    """rank -> node of the unit's world that its hook greeted from and that never read.

    None where two units of one world trained at the same time: nobody knows whose they are.
    """
    by_proc, worlds = timeline.by_proc, world_sizes(store)
    mine = [by_proc[proc] for proc in unit.procs]
    world = worlds.get((mine[0].node, mine[0].pid), 0)
    reading = {process.rank for process in mine}
    if None in reading or world <= len(mine):
        return {}
    for other in units:
        theirs = [by_proc[proc] for proc in other.procs]
        same_world = worlds.get((theirs[0].node, theirs[0].pid)) == world
        if other is not unit and same_world and _at_one_time(mine, theirs):
            return {}
    procs = {(process.node, process.pid) for process in timeline.processes}
    return {
        number: name
        for name, view in store.nodes.items()
        for rank in ranks_of(view)
        if (number := whole(rank.get("rank"))) is not None
        and number not in reading
        and whole(rank.get("world_size")) == world
        and (name, rank.get("pid")) not in procs
        and rank.get("told_by") != "environ"
    }


def _at_one_time(mine: Sequence[Process], theirs: Sequence[Process]) -> bool:
    spans = [
        (
            min(one.opens_ts_ns for one in group),
            max(one.opens_ts_ns + round(one.window_s * NS) for one in group),
        )
        for group in (mine, theirs)
    ]
    return spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1]
