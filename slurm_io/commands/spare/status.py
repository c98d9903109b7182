"""``slurm-io spare status``: could a spare take over now, and how long would it take."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from slurm_io.commands import GIVEN, SETTINGS_OPTION


@click.command(
    "status",
    short_help="Could a spare take over now, and how soon.",
    epilog="Example: slurm-io spare status train -f html -o spares.html",
)
@click.argument("reservation", required=False)
@click.option("-f", "--format", "form", type=click.Choice(["text", "json", "html"]), default="text",
              show_default=True, help="How to show it.")  # fmt: skip
@click.option("-o", "--output", type=GIVEN, metavar="FILE", help="Write to FILE, not to stdout.")
@click.option("--quick", is_flag=True, help="Ask Slurm only, and no node.")
@SETTINGS_OPTION
@click.option("--json", "as_json", is_flag=True, help="As JSON; the same as -f json.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    reservation: str | None,
    form: str,
    output: str | None,
    quick: bool,
    config_path: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Show the spares of RESERVATION: copy, health, what runs there, how long a swap would take.

    Nodes are asked through Slurm, as root or SlurmUser. Exit code 0: as many spares are ready as
    the site wants; 1: fewer; 3: it could not be told, because nothing is known of any spare.
    """
    from slurm_io import config as site
    from slurm_io.reservation.pool import only_reservation
    from slurm_io.reservation.reach import SlurmReach
    from slurm_io.reservation.status.collect import Sources, read_status
    from slurm_io.reservation.status.show import show
    from slurm_io.slurm.cli import CliSlurm

    config = site.load(config_path)
    slurm = CliSlurm()
    reach = None if quick else SlurmReach.of(slurm, config)
    name = reservation or only_reservation(config)
    status = read_status(Sources(slurm, reach, config, config_path), name)
    text = show(status, "json" if as_json else form, to_terminal=output is None)
    if output is None:
        click.echo(text)
    else:
        Path(output).write_text(text + "\n", encoding="utf-8")
    sys.exit(status.exit_code)
