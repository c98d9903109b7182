"""``slurm-io spare add``: bring a node in as a spare."""

from __future__ import annotations

import json

import click

from slurm_io.commands import SETTINGS_OPTION
from slurm_io.config import load


@click.command(
    "add",
    short_help="Bring a node in as a spare.",
    epilog="Example: slurm-io spare add train gpu017",
)
@click.argument("reservation")
@click.argument("node")
@click.option(
    "--stay-outside",
    is_flag=True,
    help="Prove and stage only: a standby node stays outside the reservation.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@SETTINGS_OPTION
@click.option("--json", "as_json", is_flag=True, help="What was done, as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    reservation: str,
    node: str,
    stay_outside: bool,
    dry_run: bool,
    config_path: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Prove NODE's copy of the dataset, stage what is wrong, add it to RESERVATION.

    All of the copy is read (level 4), also when its record says ready: a node that was repaired may
    have another disk. Exit code 0 done; 3 the node is not well, not free, or its copy could not
    be made whole: then the reservation is as it was.
    """
    from slurm_io.reservation.adding import add_spare
    from slurm_io.reservation.adding_hands import open_hands

    hands = open_hands(load(config_path), config_path, _tell)
    change = add_spare(hands, reservation, node, dry_run, stay_outside)
    click.echo(json.dumps(change.to_dict()) if as_json else f"{change.outcome}: {change.text}")


def _tell(line: str) -> None:
    click.echo(line, err=True)
