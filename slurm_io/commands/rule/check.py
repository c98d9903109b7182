"""``slurm-io rule check``: is a site rule sound, and what would it say of a job?"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from slurm_io import config
from slurm_io.commands import GIVEN
from slurm_io.commands.report import find_store
from slurm_io.errors import ConfigError


@click.command("check", short_help="Test a rule of the site.")
@click.argument("file", metavar="FILE.toml", type=GIVEN)
@click.option(
    "--against", metavar="(DIR|JOB)", type=GIVEN, help="What it says of this job, by its store."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(file: str, against: str | None, as_json: bool, debug: bool) -> None:
    """Test the site rule in FILE.toml: its keys, its expression, its units.

    Exit code 0: it is sound, whatever it says of the job; 1: it is not; 3: the file or the store
    cannot be read.
    """
    # Imported here: polars and pyarrow take 0.3 s, which `slurm-io --help` should not pay.
    from slurm_io.analysis.reports.text.words import printable
    from slurm_io.analysis.site_rules.rule_file import NotReadError, read_rule
    from slurm_io.analysis.site_rules.trial import sound, text_of, try_rule

    try:
        rule = read_rule(file)
    except NotReadError:
        raise
    except ConfigError as error:
        refused = {"sound": False, "reason": str(error)}
        click.echo(json.dumps(refused) if as_json else printable(str(error)))
        sys.exit(1)
    told = sound(rule)
    if against is not None:
        from slurm_io.analysis.thresholds import of_config

        store = find_store(against, Path.cwd())
        told |= try_rule(rule, store, of_config(config.load()))
    click.echo(json.dumps(told, indent=2) if as_json else text_of(told))
