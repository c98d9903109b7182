"""``slurm-io dataset``: manifests of datasets, and proof that a copy is whole and current."""

from __future__ import annotations

import click

from slurm_io.commands import CommandFolder


@click.group(
    "dataset",
    cls=CommandFolder,
    package=__name__,
    short_help="Manifests of datasets; is a copy whole?",
)
def command() -> None:
    """Datasets: what one version consists of, and whether a copy is whole, current, resident."""
