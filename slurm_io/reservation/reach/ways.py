"""Which way leads to which node. Pure: judges what Slurm said.

direct: ``srun --no-allocate``, for root and SlurmUser. Runs on any node whose slurmd answers, busy
    and drained ones included, takes nothing from jobs and waits for nothing. Slurm runs Prolog
    there, and never Epilog (slurmd/req.c, launch of tasks with LAUNCH_NO_ALLOC): a Prolog that
    belongs to somebody else may take the node for empty.
jobs: a short job where cores are free; on a full node a step in a job that runs there, as the
    job's owner, because Slurm gives a step to nobody else (slurmctld, also to root).
auto: direct where Slurm has no Prolog, else jobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

from slurm_io.records import dataclass, replace
from slurm_io.slurm.infos import JobInfo, NodeInfo

_GONE = ("DOWN", "UNKNOWN", "FUTURE", "ERROR")
_AWAY = ("NOT_RESPONDING", "POWERED_DOWN", "POWERING_DOWN", "REBOOT_ISSUED", "INVALID_REG")


@dataclass(frozen=True)
class Group:
    """Nodes that one srun reaches. job: in `reservation` and `partition`, None = Slurm's default;
    step: in job `job_id` as its owner `uid`."""

    kind: Literal["direct", "job", "step"]
    nodes: tuple[str, ...]
    reservation: str | None = None
    partition: str | None = None
    job_id: str | None = None
    het: tuple[str, int] | None = None
    uid: int | None = None


@dataclass(frozen=True)
class Ways:
    """Groups to reach, and why the other nodes cannot be reached."""

    groups: tuple[Group, ...]
    problems: Mapping[str, str]


def ways(
    asked: Sequence[str],
    nodes: Mapping[str, NodeInfo],
    jobs: Sequence[JobInfo],
    reservation: str | None,
    direct: bool,
    my_uid: int,
) -> Ways:
    """Every node of `asked` is in a group or has a problem. `my_uid` 0 may act for every owner."""
    problems: dict[str, str] = {}
    grouped: dict[Group, list[str]] = defaultdict(list)
    for name in dict.fromkeys(asked):
        found = _way(name, nodes.get(name), jobs, reservation, direct, my_uid)
        if isinstance(found, str):
            problems[name] = found
        else:
            grouped[found].append(name)
    groups = [replace(group, nodes=tuple(names)) for group, names in grouped.items()]
    return Ways(tuple(groups), problems)


def _way(
    name: str,
    node: NodeInfo | None,
    jobs: Sequence[JobInfo],
    reservation: str | None,
    direct: bool,
    my_uid: int,
) -> Group | str:
    """The node's group (without nodes), or why there is none."""
    if node is None:
        return "Slurm knows no such node"
    why = f": {node.reason.text}" if node.reason is not None else ""
    away = [each for each in (node.base, *node.flags) if each in (*_GONE, *_AWAY)]
    if away:
        return f"Slurm cannot reach it ({'+'.join(away)}{why})"
    if direct:
        return Group("direct", ())
    has_room = node.cpus_allocated is None or node.cpus is None or node.cpus_allocated < node.cpus
    if has_room and node.base != "ALLOCATED" and not node.is_drained:
        partition = node.partitions[0] if node.partitions else None
        own = reservation if reservation and node.reservation else node.reservation
        return Group("job", (), own, partition)
    job = _job_on(name, jobs, my_uid)
    if job is not None:
        return Group("step", (), job_id=job.job_id, het=job.het, uid=job.uid)
    if node.is_drained:
        return (
            f'drained{why}: it takes no new job; [spares] reach = "direct" reaches it all the same'
        )
    return "it is full, and no job there is one in which a step of ours may run"


def _job_on(name: str, jobs: Sequence[JobInfo], my_uid: int) -> JobInfo | None:
    for job in jobs:
        runs = job.state == "RUNNING" and not job.flags and name in job.nodes
        if runs and job.uid is not None and my_uid in (0, job.uid):
            return job
    return None
