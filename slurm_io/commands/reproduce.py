"""``slurm-io reproduce``: a small folder that reruns only a job's loader, on one node."""

from __future__ import annotations

import json
from pathlib import Path

import click

from slurm_io import config
from slurm_io.commands import GIVEN
from slurm_io.commands.report import find_store


@click.command("reproduce", short_help="Rerun only a job's loader: storage or loader?")
@click.argument("store", metavar="(DIR|JOB)", type=GIVEN)
@click.option("-o", "--output", type=GIVEN, metavar="DIR", help="Write here (a new folder).")
@click.option("--json", "as_json", is_flag=True, help="What was written, as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(store: str, output: str | None, as_json: bool, debug: bool) -> None:
    """Write scripts that rerun only the loader of the job whose store is DIR (or ./slurm-io-JOB).

    Default folder: ./reproduce-NAME-OF-THE-STORE. What the store does not tell is named, and marked
    MISSING in recipe.json. Exit code 0; 3 when the store cannot be read or the folder written.
    """
    # Imported here: polars and pyarrow take 0.3 s, which `slurm-io --help` should not pay.
    from slurm_io.analysis.reproduce.write import as_lines, default_folder, write_reproduction
    from slurm_io.analysis.thresholds import of_config
    from slurm_io.runner.recover import recover

    found = find_store(store, Path.cwd())
    recover(found)
    folder = Path(output) if output is not None else default_folder(found)
    written = write_reproduction(found, folder, of_config(config.load()))
    text = json.dumps(written.to_dict(), indent=2) if as_json else "\n".join(as_lines(written))
    click.echo(text)
