"""What can be done when no spare can take over: stage one, run smaller, borrow."""

from __future__ import annotations

from collections.abc import Mapping

from slurm_io.reservation.model import NodeSays, Pool
from slurm_io.reservation.pool import is_on_nodes
from slurm_io.reservation.status.judge import judge_data
from slurm_io.reservation.swap.fitness import wanted_version
from slurm_io.reservation.swap.step import Case
from slurm_io.slurm.hostlist import compress
from slurm_io.slurm.infos import JobInfo

_RATE_BYTES_S = 4.4e9
"""A healthy neighbour's, where nothing was measured here (fpsync, published)."""


def plan_b(
    case: Case,
    pool: Pool,
    job: JobInfo | None,
    says: Mapping[str, NodeSays],
    candidates: tuple[str, ...],
) -> tuple[str, ...]:
    """One line for each way out, with the command where there is one."""
    lines = [_restage(case, pool, says, candidates), _smaller(case, job), _borrow(case, pool)]
    return tuple(line for line in lines if line is not None)


def _restage(
    case: Case, pool: Pool, says: Mapping[str, NodeSays], candidates: tuple[str, ...]
) -> str | None:
    """The nodes that answer and lack only the data."""
    name = pool.settings.dataset
    if not name:
        return None
    wanted = wanted_version(pool, case.world.config)
    answered = [says[each] for each in candidates if each in says and says[each].problem is None]
    stale = [
        each
        for each in answered
        if judge_data(each.data, wanted, each.unread.get("data")) is not None
    ]
    if not stale:
        return None
    behind = [each.data.bytes_behind for each in stale if each.data and each.data.bytes_behind]
    eta = f" (about {min(behind) / _RATE_BYTES_S / 60:.0f} min at 4.4 GB/s)" if behind else ""
    nodes = compress([each.node for each in stale])
    return f"stage the dataset{eta}: slurm-io dataset stage {name} --to {nodes}"


def _smaller(case: Case, job: JobInfo | None) -> str | None:
    if job is None or case.facts.seats is None or case.facts.seats < 2:
        return None
    return (
        f"run on {case.facts.seats - 1} nodes: the job's owner changes its size (scontrol update "
        f"JobId={job.job_id} NumNodes={case.facts.seats - 1} while it waits), if the training can"
    )


def _borrow(case: Case, pool: Pool) -> str | None:
    """Idle nodes of the job's partition that belong to nobody; they hold no dataset."""
    taken = {node for each in (*pool.protected, *pool.foreign, *pool.filler)
             if is_on_nodes(each) for node in each.nodes}  # fmt: skip
    wanted = {part for name in pool.reservation.nodes if name in pool.nodes
              for part in pool.nodes[name].partitions}  # fmt: skip
    free = [
        node.name
        for node in case.world.slurm.nodes()
        if node.is_free and node.name not in taken and wanted & set(node.partitions)
        and node.name not in pool.nodes
    ]  # fmt: skip
    if not free:
        return None
    return f"borrow and stage an idle node: {compress(free)} (slurm-io spare add {pool.name} NODE)"
