"""``slurm-io attach (JOBID | --pid PID) -o DIR --duration S``: watch what runs already."""

from __future__ import annotations

from pathlib import Path

import click

from slurm_io.commands import GIVEN, FiniteRange
from slurm_io.errors import SlurmError, UsageError
from slurm_io.slurm.hostlist import expand

DEFAULT_S = 60.0
LEAST_S = 3.0  # the first second of a sampler only opens its sources
MOST_S = 31 * 86400.0


def nodes_of(given: str | None) -> tuple[str, ...]:
    """``--node``'s list: ``n1,n[3-4]``. Raises UsageError."""
    try:
        nodes = expand(given or "")
    except SlurmError as error:
        raise UsageError(f"--node {given}: {error}") from error
    return tuple(dict.fromkeys(nodes))


@click.command("attach", short_help="Watch a job or process that runs already.")
@click.argument("job", metavar="[JOBID]", required=False, type=GIVEN)
@click.option(
    "--pid", type=click.IntRange(min=1), metavar="PID", help="Watch this process and all below it."
)
@click.option(
    "-o",
    "--output",
    type=GIVEN,
    metavar="DIR",
    help="Store of what is seen [./slurm-io-<job id or time>.attach].",
)
@click.option(
    "--duration",
    type=FiniteRange(LEAST_S, MOST_S),
    default=DEFAULT_S,
    show_default=True,
    metavar="S",
    help="For how many seconds.",
)
@click.option("--node", "nodes", type=GIVEN, metavar="LIST", help="Only these nodes of the job.")
@click.option(
    "--load-hook",
    is_flag=True,
    help="Load the hook into ranks that run Python 3.14 or newer, for as long as this lasts.",
)
@click.option("--stacks", is_flag=True, help="Record stacks with py-spy too: 0.7 % of a core.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    job: str | None,
    pid: int | None,
    output: str | None,
    duration: float,
    nodes: str | None,
    load_hook: bool,
    stacks: bool,
    as_json: bool,
    debug: bool,
) -> None:
    """Watch a running job (123, 123_4, 123+1) or the process tree of PID, then report.

    Nothing has to be started again, and nothing is left behind. The job's owner reaches all its
    nodes, root the node it is on. Exit code 0 whatever the verdict, 3 when nothing could be seen.
    """
    from slurm_io.runner.attach.place import AttachOptions

    if (job is None) == (pid is None):
        raise UsageError("give either a job id or --pid, one of the two")
    if pid is not None and nodes is not None:
        raise UsageError("--node belongs to a job id; --pid means a process of this machine")
    options = AttachOptions(
        duration_s=duration,
        output=Path(output) if output else None,
        nodes=nodes_of(nodes),
        load_hook=load_hook,
        stacks=stacks,
        as_json=as_json,
    )
    if pid is not None:
        from slurm_io.runner.attach.by_pid import attach_to_process

        attach_to_process(pid, options)
    else:
        from slurm_io.runner.attach.by_job import attach_to_job

        attach_to_job(job or "", options)
