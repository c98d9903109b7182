"""Puts the watch of some reservations together from the site's configuration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from slurm_io.config import Config
from slurm_io.errors import UsageError
from slurm_io.reservation.history import reservation_folder
from slurm_io.reservation.pool import settings_of
from slurm_io.reservation.reach import SlurmReach
from slurm_io.reservation.watch.daemon import Watched
from slurm_io.reservation.watch.one_look import How
from slurm_io.reservation.watch.site import Site
from slurm_io.slurm.cli import CliSlurm

TASK_LOG = "watch-tasks.log"
"""What swaps and copies print that the watch has started, in the reservation's state folder."""
_MOST_LOG_BYTES = 4 << 20


def open_watch(
    config: Config, config_path: str | None, reservations: Sequence[str], policy: str | None
) -> tuple[Watched, ...]:
    """What :func:`~slurm_io.reservation.watch.daemon.watch` runs; without names every reservation
    of the configuration.

    Raises UsageError for a reservation without settings and where there is none at all, HostError
    for a state folder that others can change.
    """
    slurm = CliSlurm()
    watched = []
    for name in tuple(dict.fromkeys(reservations)) or tuple(config.reservations):
        settings_of(config, name)
        site = Site(
            slurm, SlurmReach.of(slurm, config), config, config_path, name, _task_log(config, name)
        )
        how = How(name, config.spares, "auto" if _is_auto(config, policy) else "suggest")
        watched.append(Watched(site, how))
    if not watched:
        raise UsageError("nothing to watch: the configuration has no section [reservation.NAME]")
    return tuple(watched)


def _is_auto(config: Config, policy: str | None) -> bool:
    return (policy or config.spares.policy) == "auto"


def _task_log(config: Config, reservation: str) -> str:
    with reservation_folder(config.state_dir, reservation, create=True) as folder:
        assert folder is not None
        _turn_log(folder)
        return str(Path(f"/proc/self/fd/{folder}").readlink() / TASK_LOG)


def _turn_log(folder: int) -> None:
    """Once at each start: what swaps print is short."""
    try:
        if os.stat(TASK_LOG, dir_fd=folder, follow_symlinks=False).st_size > _MOST_LOG_BYTES:
            os.replace(TASK_LOG, f"{TASK_LOG}.1", src_dir_fd=folder, dst_dir_fd=folder)
    except FileNotFoundError:
        return
