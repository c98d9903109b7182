"""``slurm-io plan``: what something would take, from numbers that are given."""

from __future__ import annotations

import click

from slurm_io.commands import CommandFolder


@click.group(
    "plan",
    cls=CommandFolder,
    package=__name__,
    short_help="Calculators, such as how often to save.",
)
def command() -> None:
    """Calculators: formulas and their bases are printed beside every result."""
