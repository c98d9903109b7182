"""``slurm-io spare remove``: take a node out of a reservation."""

from __future__ import annotations

import json

import click

from slurm_io.commands import SETTINGS_OPTION
from slurm_io.config import load


@click.command(
    "remove",
    short_help="Take a spare out of a reservation.",
    epilog="Example: slurm-io spare remove train gpu017 --dry-run",
)
@click.argument("reservation")
@click.argument("node")
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@SETTINGS_OPTION
@click.option("--json", "as_json", is_flag=True, help="What was done, as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    reservation: str,
    node: str,
    dry_run: bool,
    config_path: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Take NODE out of RESERVATION, when no protected job runs on it.

    Filler that runs there goes on to its end. Exit code 0 done, 3 refused.
    """
    from slurm_io.reservation.adding import remove_spare
    from slurm_io.reservation.adding_hands import open_hands

    hands = open_hands(load(config_path), config_path, _tell)
    change = remove_spare(hands, reservation, node, dry_run)
    click.echo(json.dumps(change.to_dict()) if as_json else f"{change.outcome}: {change.text}")


def _tell(line: str) -> None:
    click.echo(line, err=True)
