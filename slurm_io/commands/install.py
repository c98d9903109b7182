"""``slurm-io install``: write the scripts that slurm.conf names, or show the lines for it."""

from __future__ import annotations

import click

from slurm_io.config import load
from slurm_io.prolog.entry_scripts import Filling, install, slurm_conf_lines, unreadable_for_users
from slurm_io.prolog.hook import attach_folder

DEFAULT_DESTINATION = "/etc/slurm_io"


@click.command("install")
@click.option(
    "--dest",
    default=None,
    metavar="DIR",
    help="Write prolog.sh, epilog.sh and task_prolog.sh here (as root).",
)
@click.option(
    "--config",
    "config_path",
    default=None,
    metavar="FILE",
    help="Configuration file the scripts will read.",
)
@click.option(
    "--print", "show", is_flag=True, help="Show the lines for slurm.conf and write nothing."
)
def command(dest: str | None, config_path: str | None, show: bool) -> None:
    """Install the Slurm hooks: prolog, epilog and task prolog.

    The scripts get the absolute path of this Python and of the configuration file, which is
    checked first. Exit code 0 when done, 2 for a bad configuration, 3 when DIR is not root's own.
    """
    if not show and dest is None:
        raise click.UsageError("say --print, or --dest DIR")
    destination = dest or DEFAULT_DESTINATION
    if not show:
        filling = Filling.of(load(config_path), config_path)
        for path in install(destination, filling):
            click.echo(f"wrote {path}", err=True)
        closed = unreadable_for_users(attach_folder())
        if closed is not None:
            click.echo(
                f"warning: jobs cannot load the hook: users may not enter {closed}", err=True
            )
    click.echo(slurm_conf_lines(destination), nl=False)
