"""``slurm-io rule``: which rules there are, what one means, whether a site's own rule is sound."""

from __future__ import annotations

import click

from slurm_io.commands import CommandFolder


@click.group(
    "rule",
    cls=CommandFolder,
    package=__name__,
    short_help="Rules: list, show one, check one of the site.",
)
def command() -> None:
    """Rules: those built in (F01 …) and those of the site (S01 …)."""
