"""Calls a person; a program that cannot be called spoils no swap."""

from __future__ import annotations

import contextlib

from slurm_io.config import Config
from slurm_io.errors import HostError
from slurm_io.reservation.watch.alert import alert


def page(config: Config, text: str) -> None:
    """One line by spares.alert_command, where the site has one."""
    with contextlib.suppress(HostError):
        alert(config.spares.alert_command, f"slurm_io: {text}")
