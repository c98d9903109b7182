"""``slurm-io install``: write the scripts that slurm.conf names, or show the lines for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurm_io.commands import GIVEN
from slurm_io.config import DEFAULT_PATH, load

if TYPE_CHECKING:
    from slurm_io.prolog.entry_scripts import Filling

DEFAULT_DESTINATION = "/etc/slurm_io"


@click.command("install", short_help="Write the scripts that slurm.conf names.")
@click.option(
    "--dest",
    type=GIVEN,
    metavar="DIR",
    help="Write prolog.sh, epilog.sh and task_prolog.sh here (as root).",
)
@click.option(
    "--config",
    "config_path",
    type=GIVEN,
    metavar="FILE",
    help=f"Configuration file the scripts will read [{DEFAULT_PATH}, which may be absent].",
)
@click.option(
    "--print",
    "show",
    is_flag=True,
    help=f"Show the lines for slurm.conf and write nothing [DIR: {DEFAULT_DESTINATION}].",
)
@click.option("--json", "as_json", is_flag=True, help="What was written, and the lines, as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    dest: str | None, config_path: str | None, show: bool, as_json: bool, debug: bool
) -> None:
    """Install the Slurm hooks: prolog, epilog and task prolog.

    The scripts get the absolute path of this Python and of the configuration file, which is
    checked first. Exit code 0 when done, 2 for a bad configuration, 3 when DIR is not root's own.
    """
    from slurm_io.prolog.entry_scripts import Filling, install, slurm_conf_lines
    from slurm_io.prolog.own_settings import prove_own_settings

    if not show and dest is None:
        raise click.UsageError(f"say --print, or --dest DIR (usually {DEFAULT_DESTINATION})")
    destination = str(Path(dest or DEFAULT_DESTINATION).absolute())
    config = load(config_path)
    prove_own_settings(config, config_path or DEFAULT_PATH)
    filling = Filling.of(config, config_path)
    written = [] if show else install(destination, filling)
    warnings = _warnings(destination, filling) if show else _warnings_of_use(filling)
    if as_json:
        lines = slurm_conf_lines(destination).splitlines()
        conf = [line for line in lines if not line.startswith("#")]
        facts = {"written": written, "slurm_conf": conf, "warnings": warnings}
        click.echo(json.dumps(facts, indent=2))
        return
    for path in written:
        click.echo(f"wrote {path}", err=True)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(slurm_conf_lines(destination), nl=False)


def _warnings(destination: str, filling: Filling) -> list[str]:
    from slurm_io.prolog.entry_scripts import missing_scripts

    missing = [
        f"{path} is not there yet: slurm-io install --dest {destination} writes it, and a Prolog "
        "that is named but missing drains nodes"
        for path in missing_scripts(destination)[:1]
    ]
    return missing + _warnings_of_use(filling)


def _warnings_of_use(filling: Filling) -> list[str]:
    from slurm_io.prolog.entry_scripts import changeable_by_others, unreadable_for_users
    from slurm_io.prolog.hook import attach_folder

    warnings = []
    if closed := unreadable_for_users(attach_folder()):
        warnings.append(f"jobs cannot load the hook: users may not enter {closed}")
    if theirs := changeable_by_others(filling):
        warnings.append(
            f"root will run what lies in {theirs}, which others than root can change: install "
            "slurm_io in a folder of root's own"
        )
    return warnings
