"""``slurm-io run -o DIR -- CMD…``: profile a command without Slurm hooks and without root."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from slurm_io.commands import GIVEN, FiniteRange
from slurm_io.model import SamplerSpec
from slurm_io.runner.wrapper import RunOptions, run_command


@click.command("run", short_help="Run a command and record why it waits.")
@click.option(
    "-o",
    "--output",
    type=GIVEN,
    metavar="DIR",
    help="Store of this run [./slurm-io-<job id or time>[.step<step>]].",
)
@click.option(
    "--spool",
    type=GIVEN,
    metavar="FOLDER",
    help="Where to write while the command runs [$TMPDIR or /tmp]; never the store.",
)
@click.option("--no-hook", is_flag=True, help="Do not attach to Python: watch from outside only.")
@click.option("--stacks", is_flag=True, help="Record stacks with py-spy too: 0.7 % of a core.")
@click.option(
    "--budget",
    type=FiniteRange(0.0005, 1),
    default=SamplerSpec.budget_share,
    show_default=True,
    metavar="SHARE",
    help="Share of one core the sampler may use: more of it shows shorter phases.",
)
@click.option("--no-report", is_flag=True, help="Store the data, leave the analysis for later.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- CMD...")
def command(
    output: str | None,
    spool: str | None,
    no_hook: bool,
    stacks: bool,
    budget: float,
    no_report: bool,
    debug: bool,
    argv: tuple[str, ...],
) -> None:
    """Run CMD and record why it waits. Its exit code, output and signals pass through untouched.

    The report is report.txt and report.json of the store. Under srun, all tasks of the step share
    one store, and those of a node one sampler.
    """
    options = RunOptions(
        argv=argv,
        output=Path(output) if output else None,
        spool_parent=Path(spool) if spool else None,
        hook=not no_hook,
        report=not no_report,
        stacks=stacks,
        budget_share=budget,
    )
    sys.exit(run_command(options))
