"""What :mod:`slurm_io.reservation.adding` works with on a real site."""

from __future__ import annotations

from dataclasses import replace

from slurm_io.config import Config
from slurm_io.reservation.adding import Hands, Tell
from slurm_io.reservation.pool import settings_of
from slurm_io.reservation.reach import SlurmReach
from slurm_io.reservation.staging.model import StagedNodes, Wish
from slurm_io.reservation.staging.run import stage_on_nodes
from slurm_io.slurm.cli import CliSlurm
from slurm_io.staging.stage.signals import stop_on_signals


def open_hands(config: Config, config_path: str | None, tell: Tell) -> Hands:
    """Slurm by its commands; copies from healthy nodes, or from where the site says."""
    slurm = CliSlurm()
    reach = SlurmReach.of(slurm, config)

    def stage(reservation: str, node: str) -> str | None:
        settings = settings_of(config, reservation)
        wish = Wish(
            settings.dataset,
            (node,),
            reservation=reservation,
            tier=settings.tier,
            config_path=config_path,
        )
        known = with_standby(config, reservation, node)
        with stop_on_signals() as stop:
            return problem_of(stage_on_nodes(slurm, known, wish, tell, stop, reach), node)

    return Hands(slurm, reach, config, stage, config_path, tell)


def with_standby(config: Config, reservation: str, node: str) -> Config:
    """A node that was repaired is in no part of the pool yet: copied to as a standby one is."""
    settings = settings_of(config, reservation)
    standby = ",".join(each for each in (settings.standby, node) if each)
    changed = {reservation: replace(settings, standby=standby)}
    return replace(config, reservations={**config.reservations, **changed})


def problem_of(staged: StagedNodes, node: str) -> str | None:
    """Why the node does not hold it now; None when it does."""
    if staged.plan.problem is not None:
        return staged.plan.problem
    if node in staged.plan.ready:
        return None
    for answer in staged.nodes:
        if answer.node == node:
            return None if answer.rc in (0, 1) else answer.text
    return staged.plan.excluded.get(node, "it was not staged")
