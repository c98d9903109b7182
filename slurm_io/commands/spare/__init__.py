"""``slurm-io spare``: spare nodes of a reservation."""

from __future__ import annotations

import click

from slurm_io.commands import CommandFolder


@click.group(
    "spare",
    cls=CommandFolder,
    package=__name__,
    short_help="Spare nodes: state, swap, watch, drill.",
)
def command() -> None:
    """Spares: nodes of a reservation that hold its dataset and take over when a node fails."""
