"""``slurm-io spare swap``: a spare takes the place of a bad node."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from slurm_io.commands import GIVEN, SETTINGS_OPTION, FiniteRange
from slurm_io.config import load
from slurm_io.errors import UsageError

if TYPE_CHECKING:
    from slurm_io.reservation.swap.model import StepReport, SwapAnswer, Wish
    from slurm_io.reservation.swap.run import Swap
    from slurm_io.reservation.swap.world import World


@click.command(
    "swap",
    short_help="Let a spare take the place of a bad node.",
    epilog="Example: slurm-io spare swap train gpu017 --dry-run",
)
@click.argument("reservation")
@click.argument("node", required=False)
@click.option("--bad", type=GIVEN, metavar="NODE", help="The bad node (the same as NODE).")
@click.option("--job", type=GIVEN, metavar="JOBID", help="The job that must go on.")
@click.option("--spare", type=GIVEN, metavar="NODE", help="This spare and no other.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask. Needed where no terminal is.")
@click.option("--force", is_flag=True, help="Do not wait out spares.grace_s.")
@click.option(
    "--release", is_flag=True, help="Release the job if it is held (after a failed launch)."
)
@click.option(
    "--since",
    type=FiniteRange(min=0),
    metavar="EPOCH_S",
    hidden=True,
    help="Since when the watch knows the node to be bad.",
)
@click.option("--resume", "way", flag_value="resume", help="Go on with a swap that was stopped.")
@click.option("--roll-back", "way", flag_value="roll-back", help="Take back such a swap.")
@SETTINGS_OPTION
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    reservation: str,
    node: str | None,
    way: str | None,
    dry_run: bool,
    yes: bool,
    config_path: str | None,
    as_json: bool,
    debug: bool,
    **given: Any,
) -> None:
    """Swap a bad node of RESERVATION for a spare, and watch its job to the first step.

    Without a node the bad one is looked for. Every step is journaled before it acts: a swap that
    was killed goes on with --resume, or is taken back with --roll-back. Exit code 0 done (or
    nothing to do), 1 swapped but the job still waits, 3 not done.
    """
    from slurm_io.reservation.swap.model import Wish
    from slurm_io.reservation.swap.real_world import open_world
    from slurm_io.reservation.swap.run import plan, resume, roll_back, swap

    bad = _one(node, given["bad"])
    if way is not None and (bad or given["job"] or given["spare"] or dry_run):
        raise UsageError(f"--{way} goes on with what was begun: it takes no node, job or --dry-run")
    named = {key: given[key] for key in ("job", "spare", "force", "release")}
    wish = Wish(reservation, bad, **named, since_s=given["since"])
    world = replace(open_world(load(config_path), reservation, config_path), say=_say)
    ways = {None: swap, "resume": resume, "roll-back": roll_back}
    if dry_run:
        answer = plan(world, wish, _quiet if as_json else _show)
    else:
        answer = _do(ways[way], world, wish, yes or way is not None, as_json)
    _end(answer, as_json)


def _do(act: Swap, world: World, wish: Wish, yes: bool, as_json: bool) -> SwapAnswer:
    from slurm_io.reservation.swap.run import plan

    if not yes:
        if as_json or not sys.stdin.isatty():
            raise UsageError("no terminal to ask on: give --yes, or look first with --dry-run")
        planned = plan(world, wish, _show)
        if planned.state != "planned":
            return planned
        click.confirm("Do it?", abort=True)
    try:
        return act(world, wish, _quiet if as_json else _show)
    except KeyboardInterrupt:
        click.echo(f"slurm-io: {_stopped(world, wish)}", err=True)
        raise


def _stopped(world: World, wish: Wish) -> str:
    from slurm_io.reservation.swap.journal import unfinished

    if unfinished(world.config.state_dir, wish.reservation) is None:
        return "stopped: nothing was done"
    again = f"slurm-io spare swap {wish.reservation}"
    return f"stopped: {again} --resume goes on, --roll-back takes back"


def _one(node: str | None, bad: str | None) -> str | None:
    if node and bad and node != bad:
        raise UsageError("two bad nodes named: one swap is for one node")
    return node or bad


def _show(report: StepReport) -> None:
    from slurm_io.reservation.swap.text import step_line

    click.echo(step_line(report))


def _say(line: str) -> None:
    click.echo(f"slurm-io: {line}", err=True)


def _quiet(report: StepReport) -> None:
    """The answer tells it all."""


def _end(answer: SwapAnswer, as_json: bool) -> None:
    from slurm_io.reservation.swap.text import end_lines

    if as_json:
        click.echo(json.dumps(answer.to_dict()))
    else:
        click.echo("\n".join(end_lines(answer)))
    raise SystemExit(answer.exit_code)
