"""``slurm-io rule show``: the page of one rule."""

from __future__ import annotations

import json

import click

from slurm_io import config
from slurm_io.commands import GIVEN


@click.command("show", short_help="Explain one rule.")
@click.argument("code", type=GIVEN)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(code: str, as_json: bool, debug: bool) -> None:
    """Explain the rule called CODE (F01, or S01 of the site).

    Exit code 0; 2 when there is no such rule.
    """
    from slurm_io.analysis.rule_catalogue import page_of

    facts = page_of(code, config.load())
    click.echo(json.dumps(facts, indent=2) if as_json else facts["text"])
