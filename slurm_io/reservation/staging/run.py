"""A dataset brought to nodes through Slurm: the entry for ``dataset stage NAME --to NODE…``."""

from __future__ import annotations

import threading
from collections.abc import Callable

from slurm_io.config import Config
from slurm_io.reservation.reach.slurm_reach import SlurmReach
from slurm_io.reservation.staging.coordinating import Coordinator
from slurm_io.reservation.staging.model import NodesPlan, StagedNodes, Wish
from slurm_io.reservation.staging.planning import plan_nodes
from slurm_io.slurm.base import SlurmReader


def plan_on_nodes(
    slurm: SlurmReader, config: Config, wish: Wish, reach: SlurmReach | None = None
) -> NodesPlan:
    """What :func:`stage_on_nodes` would do. Changes nothing. Raises SlurmIoError."""
    return plan_nodes(slurm, reach or SlurmReach.of(slurm, config), config, wish)


def stage_on_nodes(
    slurm: SlurmReader,
    config: Config,
    wish: Wish,
    say: Callable[[str], None],
    stop: threading.Event,
    reach: SlurmReach | None = None,
) -> StagedNodes:
    """Stage `wish.name` on `wish.targets`. `say` gets lines of progress, from any thread; `stop`
    set: everything of it ends, on the nodes too, and the same wish goes on later.

    Raises SlurmIoError for what cannot be planned; what a node did is in the answer.
    """
    found = reach or SlurmReach.of(slurm, config)
    plan = plan_nodes(slurm, found, config, wish)
    if plan.problem is not None or not plan.targets:
        return StagedNodes(plan, ())
    coordinator = Coordinator(plan, config, wish, found, say, stop)
    try:
        return StagedNodes(plan, coordinator.run())
    finally:
        coordinator.end()
