"""Where a drill can be held without touching anybody's work."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_io.errors import SlurmRefused
from slurm_io.reservation.model import Pool
from slurm_io.reservation.pool import is_waiting, jobs_on
from slurm_io.reservation.watch.signs import sign_of
from slurm_io.slurm.infos import NodeInfo


@dataclass(frozen=True)
class Seats:
    """`nodes` of the drill's job, the last of which will be fenced; `spares` that may take over."""

    nodes: tuple[str, ...]
    spares: tuple[str, ...]

    @property
    def bad(self) -> str:
        """The node that "fails": not the one with the batch script, when there are two."""
        return self.nodes[-1]


def seats_of(pool: Pool, count: int) -> Seats:
    """Idle nodes of the reservation for the job, and a further one, idle or with filler, as spare.

    Raises SlurmRefused where a protected job is about to start, or too few nodes are free.
    """
    waiting = [job.job_id for job in pool.protected if is_waiting(job)]
    if waiting:
        raise SlurmRefused(
            f"job {waiting[0]} waits for reservation {pool.name}: a drill would take its nodes; "
            "hold it again when it runs"
        )
    well = [node for node in pool.spares if _is_well(pool.nodes[node])]
    idle = [node for node in well if not jobs_on(pool, node) and pool.nodes[node].base == "IDLE"]
    inside = [node for node in idle if node in pool.reservation.nodes]
    filler = {job.job_id for job in pool.filler}
    gives_way = [node for node in well if all(job.job_id in filler for job in jobs_on(pool, node))]
    nodes = tuple(inside[:count])
    spares = tuple(node for node in gives_way if node not in nodes)
    if len(nodes) < count or not spares:
        raise SlurmRefused(
            f"a drill on {count} nodes needs {count} idle nodes of reservation {pool.name} and one "
            f"more that is idle or runs filler; idle are {', '.join(inside) or 'none'}, further "
            f"{', '.join(spares) or 'none'}: hold it between two trainings, or with --nodes 1"
        )
    return Seats(nodes, spares)


def _is_well(node: NodeInfo) -> bool:
    return sign_of(node, {}) is None and not node.is_drained
