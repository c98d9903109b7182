"""``slurm-io spare drill``: rehearse a swap."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING

import click

from slurm_io.commands import GIVEN, SETTINGS_OPTION
from slurm_io.config import load

if TYPE_CHECKING:
    from slurm_io.reservation.swap.model import StepReport


@click.command(
    "drill",
    short_help="Rehearse a swap on a small job of our own.",
    epilog="Example: slurm-io spare drill train --dry-run",
)
@click.argument("reservation")
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@click.option(
    "--nodes",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    metavar="N",
    help="Nodes of the job; one more must be free.",
)
@click.option(
    "--folder",
    type=GIVEN,
    metavar="DIR",
    help="Where the job runs: writable by filler_user, readable here [its home].",
)
@click.option("--give-back", is_flag=True, help="Give back what a killed drill still holds.")
@SETTINGS_OPTION
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    reservation: str,
    dry_run: bool,
    nodes: int,
    folder: str | None,
    give_back: bool,
    config_path: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Run a small job in RESERVATION, drain one of its nodes, and do the real swap.

    Nobody's work is touched: it needs idle nodes, and refuses where a protected job waits. The
    seconds of each phase go to the history, which the estimate of spare status uses. Exit code 0:
    the job came back on the spare; 1: it did not; 3: refused, or it could not be held.
    """
    from slurm_io.reservation.drill.run import drill
    from slurm_io.reservation.drill.run import give_back as pay
    from slurm_io.reservation.swap.real_world import open_world

    world = open_world(load(config_path), reservation, config_path)
    # Told to end, it must give back what it holds.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if give_back:
        done = pay(world, reservation)
        click.echo(json.dumps(done) if as_json else "\n".join(done) or "nothing was left")
        return
    show = _quiet if as_json else _show
    found = drill(world, reservation, nodes, folder, _tell, show, dry_run)
    if as_json:
        click.echo(json.dumps(found.to_dict()))
    else:
        click.echo(f"{found.state}: {found.text}")
        for phase, took_s in found.phases.items():
            click.echo(f"  {phase:<12} {took_s:7.1f} s")
    sys.exit(0 if found.state in ("done", "planned") else 1)


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _show(report: StepReport) -> None:
    from slurm_io.reservation.swap.text import step_line

    click.echo(step_line(report))


def _quiet(report: StepReport) -> None:
    """The answer tells it all."""
