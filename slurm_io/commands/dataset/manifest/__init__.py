"""``slurm-io dataset manifest``: build, import, compare, show and sign manifests."""

from __future__ import annotations

import click

from slurm_io.commands import CommandFolder


@click.group(
    "manifest", cls=CommandFolder, package=__name__, short_help="Build, import, compare, sign."
)
def command() -> None:
    """Manifests: which files, of which size and content, one version of a dataset consists of."""
