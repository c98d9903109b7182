"""The srun step this process is a task of: which tasks belong together, and on which nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from slurm_io.errors import SlurmError
from slurm_io.slurm.hostlist import expand

_MOST_STEPS = 0xFFFFFFF0  # numbers from here on are the batch, extern and interactive steps
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_NODE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_TASK_COUNT = re.compile(r"([0-9]{1,7})(?:\(x([0-9]{1,7})\))?", re.ASCII)


@dataclass(frozen=True)
class Step:
    """One step as one of its tasks sees it.

    `task` counts through the whole step, `local_tasks` is how many run on this node (None = not
    told), `port` is where srun listens: it tells steps of two clusters on one machine apart.
    """

    job: str
    restart: int
    number: int
    node: str
    task: int
    tasks: int
    nodes: tuple[str, ...]
    local_tasks: int | None = None
    port: int = 0

    @property
    def is_shared(self) -> bool:
        """More than one task: they meet in one recording."""
        return self.tasks > 1


def read_step(environment: Mapping[str, str], node: str) -> Step | None:
    """The step from a task's environment; None in a batch script, in a shell, without Slurm."""
    job = _number(environment, "SLURM_JOB_ID")
    number = _number(environment, "SLURM_STEP_ID")
    task = _number(environment, "SLURM_PROCID")
    if job is None or number is None or task is None or number >= _MOST_STEPS:
        return None
    if not _NODE.fullmatch(node):
        return None
    nodes = _nodes(environment.get("SLURM_STEP_NODELIST", ""), node)
    return Step(
        job=str(job),
        restart=_number(environment, "SLURM_RESTART_COUNT") or 0,
        number=number,
        node=node,
        task=task,
        tasks=_number(environment, "SLURM_STEP_NUM_TASKS") or 1,
        nodes=nodes,
        local_tasks=_local_tasks(environment),
        port=_number(environment, "SLURM_STEP_LAUNCHER_PORT") or 0,
    )


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if _NUMBER.fullmatch(text) else None


def _nodes(text: str, own: str) -> tuple[str, ...]:
    """The step's nodes; a list that leaves out the node we are on is another step's."""
    try:
        nodes = expand(text)
    except SlurmError:
        return (own,)
    return nodes if own in nodes and all(map(_NODE.fullmatch, nodes)) else (own,)


def _local_tasks(environment: Mapping[str, str]) -> int | None:
    """From ``SLURM_STEP_TASKS_PER_NODE``, e.g. ``4,2(x3)``: this node's is number SLURM_NODEID."""
    place = _number(environment, "SLURM_NODEID")
    for word in environment.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        found = _TASK_COUNT.fullmatch(word)
        if found is None or place is None:
            return None
        place -= int(found[2] or 1)
        if place < 0:
            return int(found[1])
    return None
