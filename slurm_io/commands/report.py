"""``slurm-io report``: the report of one job, from its store."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from slurm_io import config
from slurm_io.analysis.reports.base import FORMATS
from slurm_io.commands import GIVEN
from slurm_io.errors import StoreError, UsageError


def find_store(given: str, here: Path) -> Path:
    """The job store meant by `given`: a folder, or the id of a job whose store lies in `here`.

    Raises:
        StoreError: no such folder or job.
        UsageError: the id fits more than one store (a requeued job has one for each run).
    """
    path = Path(given)
    if path.is_dir():
        return path
    if "/" in given or path.exists():
        raise StoreError(f"{given} is not a folder: give a job store, or a job id")
    found = sorted(
        folder
        for folder in here.glob("slurm-io-*")
        if folder.is_dir() and _job_of(folder.name) == given
    )
    if not found:
        raise StoreError(
            f"no folder {given} and no store ./slurm-io-{given} here: go to the job's working "
            "directory, or give the path of its store"
        )
    found = [folder for folder in found if ".attach" not in folder.name] or found
    if len(found) > 1:
        names = ", ".join(folder.name for folder in found)
        raise UsageError(f"job {given} ran more than once ({names}): give one of these folders")
    return found[0]


def _job_of(folder_name: str) -> str:
    """``slurm-io-<job>[.<restart>|.step<step>|.run][-<number>]`` -> ``<job>``."""
    return re.split("[.-]", folder_name.removeprefix("slurm-io-"), maxsplit=1)[0]


@click.command("report", short_help="Say what storage cost a job.")
@click.argument("store", metavar="(DIR|JOB)", type=GIVEN)
@click.option(
    "-f",
    "--format",
    "form",
    type=click.Choice(FORMATS.module_names()),
    default="text",
    show_default=True,
)
@click.option("--json", "as_json", is_flag=True, help="Short for -f json.")
@click.option("-o", "--output", type=GIVEN, metavar="FILE", help="Write here.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(store: str, form: str, as_json: bool, output: str | None, debug: bool) -> None:
    """Say what storage cost the job whose store is DIR (or ./slurm-io-JOB).

    Exit code 0 whatever the verdict, 3 when there is no store that can be read.
    """
    # Imported here: polars and pyarrow take 0.3 s, which `slurm-io --help` should not pay.
    from slurm_io.analysis.api import analyse, write_atomically
    from slurm_io.analysis.thresholds import of_config
    from slurm_io.runner.recover import recover

    folder = find_store(store, Path.cwd())
    recover(folder)
    report = analyse(folder, of_config(config.load()))
    text = _rendered(report, "json" if as_json else form, to_terminal=output is None)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        write_atomically(Path(output), text)
    except OSError as error:
        raise StoreError(f"cannot write {output}: {error.strerror or error}") from error


def _rendered(report: Mapping[str, Any], form: str, to_terminal: bool) -> str:
    from slurm_io.analysis.reports.text import render_for_terminal

    if form == "text" and to_terminal and sys.stdout.isatty():
        return render_for_terminal(report, shutil.get_terminal_size().columns, os.environ)
    return FORMATS.get(form)(report)
