"""``slurm-io rule list``: every rule with its thresholds in force, and where they come from."""

from __future__ import annotations

import json

import click

from slurm_io import config


@click.command("list", short_help="All rules, with the thresholds in force.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(as_json: bool, debug: bool) -> None:
    """List all rules with their thresholds and where each comes from: the default or a file.

    Exit code 0; 1 when a rule of the site cannot be used.
    """
    from slurm_io.analysis.rule_catalogue import catalogue, lines

    site = config.load()
    found = catalogue(site, config.DEFAULT_PATH)
    click.echo(json.dumps(found.to_dict(), indent=2) if as_json else "\n".join(lines(found)))
    for path, why in found.broken:
        click.echo(f"slurm-io: {path}: {why}", err=True)
    if found.broken:
        raise SystemExit(1)
