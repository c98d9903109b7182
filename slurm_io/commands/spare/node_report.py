"""``slurm-io spare node-report``: what this node says of itself, for whoever chooses a spare."""

from __future__ import annotations

import json
import os

import click

from slurm_io.commands import GIVEN, FiniteRange


@click.command("node-report", hidden=True, short_help="What this node says of itself, as JSON.")
@click.option("--dataset", default="", metavar="NAME[@CONTENT-ID]", help="What it should hold.")
@click.option("--tier", type=click.Choice(["local", "shared"]), default="local", help="Which copy.")
@click.option("--node", metavar="NAME", help="Slurm's name of this node, where it is not clear.")
@click.option("--limit", "limit_s", type=FiniteRange(5, 600), default=25.0, metavar="S",
              show_default=True, help="The whole report takes no longer.")  # fmt: skip
@click.option("--config", "config_path", type=GIVEN, metavar="FILE", help="The site's settings.")
@click.option("--json", "as_json", is_flag=True, help="As JSON (it always is).")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    dataset: str,
    tier: str,
    node: str | None,
    limit_s: float,
    config_path: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Print one JSON object about this node: its copy of the dataset, its checks, its software.

    `slurm-io spare status` runs it on each node, inside Slurm.
    """
    from slurm_io import config
    from slurm_io.reservation.node_report.gather import Asked, gather
    from slurm_io.slurm.node_name import node_name

    asked = Asked(node or node_name(os.environ), dataset, tier, config_path, limit_s)
    click.echo(json.dumps(gather(config.load(config_path), asked)))
