"""``slurm-io spare watch``: look after the spares of reservations."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from slurm_io.commands import SETTINGS_OPTION
from slurm_io.config import load

if TYPE_CHECKING:
    from slurm_io.reservation.watch.act import Event


@click.command(
    "watch",
    short_help="Look after the spares of a reservation.",
    epilog="Example: slurm-io spare watch train --once",
)
@click.argument("reservations", nargs=-1, metavar="[RESERVATION...]")
@click.option("--once", is_flag=True, help="Look once and end.")
@click.option(
    "--policy",
    type=click.Choice(["suggest", "auto"]),
    help="Say what it would do, or do it [the site's: spares.policy].",
)
@click.option("--print-unit", is_flag=True, help="Show a systemd unit for this watch, and end.")
@SETTINGS_OPTION
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line on stdout.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    reservations: tuple[str, ...],
    once: bool,
    policy: str | None,
    print_unit: bool,
    config_path: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Find failing nodes, swap them or suggest it, keep spares fresh and at work.

    Without RESERVATION: every one that the configuration has a section for.

    It stays in the foreground until SIGTERM; systemd keeps it running (--print-unit). Each new
    situation is one line on stderr, said once. Exit code 0: ended by a signal, or with --once
    nothing to say; 1: with --once there is something; 2: no such section in the configuration; 3:
    another watch has the reservation.
    """
    from slurm_io.reservation.watch.daemon import watch
    from slurm_io.reservation.watch.open_watch import open_watch
    from slurm_io.reservation.watch.unit import unit_text

    config = load(config_path)
    if print_unit:
        click.echo(unit_text(reservations, config.spares, config_path), nl=False)
        return
    watched = open_watch(config, config_path, reservations, policy)
    said = watch(watched, config.state_dir, _say_json if as_json else _say, once)
    sys.exit(1 if once and said else 0)


def _say(event: Event) -> None:
    click.echo(event.line(), err=True)


def _say_json(event: Event) -> None:
    click.echo(event.to_json())
    sys.stdout.flush()
