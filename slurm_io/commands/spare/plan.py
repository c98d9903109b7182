"""``slurm-io spare plan``: what a swap would do, for each protected job and node."""

from __future__ import annotations

import json

import click

from slurm_io.commands import SETTINGS_OPTION
from slurm_io.config import load


@click.command(
    "plan",
    short_help="What a swap would do for each node of each job.",
    epilog="Example: slurm-io spare plan train",
)
@click.argument("reservation")
@SETTINGS_OPTION
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(reservation: str, config_path: str | None, as_json: bool, debug: bool) -> None:
    """For each node of each protected job of RESERVATION: which spare would take over, and how.

    Changes nothing. Exit code 0 a spare stands ready for each node, 1 for some there is none.
    """
    from slurm_io.reservation.swap.forecast import forecasts
    from slurm_io.reservation.swap.real_world import open_world
    from slurm_io.reservation.swap.text import forecast_lines

    found = forecasts(open_world(load(config_path), reservation, config_path), reservation)
    if as_json:
        click.echo(json.dumps([each.to_dict() for each in found]))
    else:
        click.echo("\n".join(forecast_lines(found)))
    ready = all(each.answer is not None and each.answer.state == "planned" for each in found)
    raise SystemExit(0 if ready else 1)
