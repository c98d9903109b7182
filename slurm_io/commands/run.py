"""``slurm-io run -o DIR -- CMD…``: profile a command without Slurm hooks and without root."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from slurm_io.runner.wrapper import RunOptions, run_command


@click.command(context_settings={"ignore_unknown_options": False})
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Store of this run; default ./slurm-io-<job id or time>[.step<step>].",
)
@click.option(
    "--spool",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to write while the command runs; default $TMPDIR or /tmp, never DIR.",
)
@click.option("--no-hook", is_flag=True, help="Do not attach to Python: watch from outside only.")
@click.option("--no-report", is_flag=True, help="Store the data, leave the analysis for later.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- CMD...")
def command(
    output: Path | None, spool: Path | None, no_hook: bool, no_report: bool, argv: tuple[str, ...]
) -> None:
    """Run CMD and record why it waits. Its exit code, output and signals pass through untouched.

    Under srun, all tasks of the step share one store, and those of a node one sampler.
    """
    options = RunOptions(
        argv=argv, output=output, spool_parent=spool, hook=not no_hook, report=not no_report
    )
    sys.exit(run_command(options))
