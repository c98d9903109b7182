"""``slurm-io compare``: two jobs, what changed, and whether the difference is real."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from slurm_io import config
from slurm_io.commands import COULD_NOT, GIVEN, columns
from slurm_io.commands.report import find_store


@click.command("compare", short_help="Two jobs: what changed, and is it real?")
@click.argument("a", metavar="A", type=GIVEN)
@click.argument("b", metavar="B", type=GIVEN)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(a: str, b: str, as_json: bool, debug: bool) -> None:
    """Compare two jobs, each given by its store (a folder) or its id (./slurm-io-ID).

    Says which settings changed, and of each figure whether the difference exceeds the runs' own
    noise. Exit code 0: no difference proven; 1: some figure differs; 3: nothing could be compared
    (too short, different bases), or no store can be read.
    """
    # Imported here: polars and pyarrow take 0.3 s, which `slurm-io --help` should not pay.
    from slurm_io.analysis.compare.comparison import compare, is_comparison, is_difference
    from slurm_io.analysis.compare.text import render
    from slurm_io.analysis.thresholds import of_config
    from slurm_io.runner.recover import recover

    stores = [find_store(given, Path.cwd()) for given in (a, b)]
    for store in stores:
        recover(store)
    found = compare(stores[0], stores[1], of_config(config.load()))
    click.echo(json.dumps(found, indent=2) if as_json else render(found, columns()), nl=as_json)
    if not is_comparison(found):
        sys.exit(COULD_NOT)
    sys.exit(1 if is_difference(found) else 0)
