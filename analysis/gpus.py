"""How many GPUs wait when a process waits."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from slurm_io.analysis.inputs import StoreView
from slurm_io.analysis.timeline import Process, Timeline


@dataclass(frozen=True)
class Gpus:
    """GPUs of each process (proc -> number); `known` is False where one per rank was assumed."""

    of_proc: dict[int, float]
    known: bool
    total: int | None


def count_gpus(store: StoreView, timeline: Timeline) -> Gpus:
    """From the job's ``gpus_on_node`` shared over the node's ranks that ran at the same time.

    Ranks that never read (tensor or pipeline parallel) hold GPUs too: the readers of a node stand
    for all of its GPUs.
    """
    on_node = store.job.gpus_on_node if store.job is not None else None
    if not on_node or on_node < 0:
        return Gpus({process.proc: 1.0 for process in timeline.processes}, False, None)
    by_node: dict[str, list[Process]] = defaultdict(list)
    for process in timeline.processes:
        by_node[process.node].append(process)
    share = {
        process.proc: on_node / _most_at_once(process, by_node[process.node])
        for process in timeline.processes
    }
    return Gpus(share, True, on_node * len(store.nodes))


def _most_at_once(process: Process, others: list[Process]) -> int:
    """Processes of the node that trained in this one's window (itself included)."""
    return sum(
        other.opens < process.closes and other.closes > process.opens or other is process
        for other in others
    )
