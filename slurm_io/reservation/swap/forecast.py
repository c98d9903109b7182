"""``spare plan``: for each protected job, which spare would take over from each of its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from slurm_io.errors import SlurmIoError
from slurm_io.reservation.model import NodeSays
from slurm_io.reservation.pool import is_on_nodes
from slurm_io.reservation.swap.model import Facts, SwapAnswer, Wish
from slurm_io.reservation.swap.run import plan_case
from slurm_io.reservation.swap.step import Case
from slurm_io.reservation.swap.steps.target import kept, refuse_job
from slurm_io.reservation.swap.world import World
from slurm_io.slurm.infos import JobInfo, ReservationInfo


@dataclass(frozen=True)
class Forecast:
    """What would be done if `node` of job `job` failed now; `refused`: why nothing could be."""

    job: str
    node: str
    answer: SwapAnswer | None
    refused: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def forecasts(world: World, name: str) -> tuple[Forecast, ...]:
    """One for each node of each protected job that runs. Nodes are asked once. Changes nothing."""
    pool = world.read_pool()
    asked: dict[str, NodeSays] = {}

    def ask_once(nodes: Sequence[str]) -> Mapping[str, NodeSays]:
        new = tuple(node for node in nodes if node not in asked)
        if new:
            asked.update(world.ask(new))
        return {node: asked[node] for node in nodes if node in asked}

    quick = replace(world, ask=ask_once)
    running = [job for job in pool.protected if is_on_nodes(job)]
    return tuple(
        _forecast(quick, name, job, node, pool.reservation) for job in running for node in job.nodes
    )


def _forecast(
    world: World, name: str, job: JobInfo, node: str, reservation: ReservationInfo
) -> Forecast:
    facts = Facts(
        bad=node,
        evidence="if it failed",
        began_s=world.clock.now_s(),
        job=job.job_id,
        job_restarts=job.restarts,
        former=job.nodes,
        seats=job.node_count or len(job.nodes),
        pins=job.pinned_to,
        before=kept(reservation),
    )
    try:
        refuse_job(job)
        return Forecast(job.job_id, node, plan_case(Case(world, Wish(name, node), facts)))
    except SlurmIoError as error:
        return Forecast(job.job_id, node, None, str(error))
