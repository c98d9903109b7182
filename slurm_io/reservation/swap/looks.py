"""Judging what was read of a node or a job, for several steps."""

from __future__ import annotations

from collections.abc import Iterable

from slurm_io.errors import SlurmUnreachable
from slurm_io.reservation.pool import is_on_nodes
from slurm_io.slurm.base import SlurmReader
from slurm_io.slurm.infos import JobInfo, NodeInfo

REASON = "slurm_io: swap"
"""What the reasons of our own drains begin with. No check of the prolog has this name, so that
none of them takes the drain back."""
_BAD = frozenset({"DOWN", "FAIL", "FAILING", "ERROR", "DRAIN", "NOT_RESPONDING"})
_LOST = _BAD - {"DRAIN"}
_USABLE_BASES = frozenset({"IDLE", "MIXED", "ALLOCATED"})
_USABLE_FLAGS = frozenset({"PLANNED", "RESERVED", "COMPLETING", "DYNAMIC_NORM", "CLOUD"})


def bad_words(node: NodeInfo) -> tuple[str, ...]:
    """Words of its state that make a node bad, e.g. ``DOWN``, ``NOT_RESPONDING``."""
    return tuple(each for each in (node.base, *node.flags) if each in _BAD)


def is_lost(node: NodeInfo) -> bool:
    """Down, failed or silent, and not merely drained by a person."""
    return not _LOST.isdisjoint((node.base, *node.flags))


def unusable_words(node: NodeInfo) -> tuple[str, ...]:
    """Words that keep a job from starting there, those not known here among them."""
    base = () if node.base in _USABLE_BASES else (node.base,)
    return (*base, *(each for each in node.flags if each not in _USABLE_FLAGS))


def refuse_just_started(nodes: Iterable[NodeInfo]) -> None:
    """Raises SlurmUnreachable when slurmctld has not heard from most nodes: it has just started,
    and knows nothing of them yet."""
    known = list(nodes)
    unheard = [each.name for each in known if is_unheard(each)]
    if 2 * len(unheard) > len(known):
        raise SlurmUnreachable(
            f"slurmctld has just started and has not heard from {', '.join(unheard[:8])} yet"
        )


def is_unheard(node: NodeInfo) -> bool:
    """Whether slurmctld knows it, and has not heard from it since it started."""
    return node.base == "UNKNOWN" and node.is_responding


def is_ours(node: NodeInfo) -> bool:
    """Whether it was drained by a swap."""
    return node.is_drained and node.reason is not None and node.reason.text.startswith(REASON)


def has_left(slurm: SlurmReader, job_id: str, node: str) -> bool:
    """Whether nothing of this job can run on the node: the job is not on it, or the node is down
    and answers nobody."""
    job = slurm.job(job_id)
    return not (is_on_nodes(job) and node in job.nodes) or slurm.node(node).base == "DOWN"


def reason_of(node: NodeInfo) -> str:
    """`` (reason)`` for people, "" without one."""
    return f" ({node.reason.text[:160]})" if node.reason is not None else ""


def job_words(job: JobInfo) -> str:
    """A job for people; its name is the user's and is not told."""
    owner = f" of {job.user}" if job.user else ""
    return f"job {job.job_id}{owner}"
