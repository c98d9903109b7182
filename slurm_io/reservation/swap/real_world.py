"""The world of a swap as it is: this cluster, its nodes reached through Slurm."""

from __future__ import annotations

from slurm_io.config import Config
from slurm_io.reservation.asking import ask_nodes
from slurm_io.reservation.pool import read_pool, settings_of
from slurm_io.reservation.reach.slurm_reach import SlurmReach
from slurm_io.reservation.swap.job_steps import read_steps
from slurm_io.reservation.swap.world import World
from slurm_io.slurm.cli import CliSlurm


def open_world(config: Config, name: str, config_path: str | None) -> World:
    """`config_path`: the settings' file, passed on to the nodes. Raises UsageError for a
    reservation without settings."""
    settings_of(config, name)
    slurm = CliSlurm()
    reach = SlurmReach.of(slurm, config)
    return World(
        slurm=slurm,
        reach=reach,
        config=config,
        read_pool=lambda: read_pool(slurm, config, name),
        ask=lambda nodes: ask_nodes(
            reach, read_pool(slurm, config, name), config, nodes, config_path
        ),
        read_steps=read_steps,
        config_path=config_path,
    )
