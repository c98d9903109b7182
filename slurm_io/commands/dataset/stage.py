"""``slurm-io dataset stage``: bring a dataset to this node, proven before it counts."""

from __future__ import annotations

import json
from typing import IO, Any

import click

from slurm_io.commands import GIVEN, SETTINGS_OPTION
from slurm_io.config import load
from slurm_io.errors import UsageError


@click.command(
    "stage",
    short_help="Bring a dataset to this node, verified.",
    epilog="Example: slurm-io dataset stage c4 --to gpu[007-008] --dry-run",
)
@click.argument("name", required=False, metavar="[NAME[@CONTENT-ID]]")
@click.option(
    "--from",
    "given",
    multiple=True,
    type=GIVEN,
    metavar="SOURCE",
    help="A folder, s3://…, rsync://…, or path or s3 for what the site has; again for more. With "
    "--to also peer, or nodes.",
)
@click.option(
    "--sources", type=click.File(), metavar="FILE", help="Sources as JSON, with secrets; - = stdin."
)
@click.option(
    "--path", type=click.Path(file_okay=False), metavar="DIR", help="A folder instead of a NAME."
)
@click.option("--manifest", type=GIVEN, metavar="FILE", help="The manifest of the version wanted.")
@click.option(
    "--tier", type=click.Choice(["local", "shared"]), help="Which copy [the site's choice]."
)
@click.option(
    "--to", multiple=True, type=GIVEN, metavar="NODES", help="Nodes to stage on, through Slurm."
)
@click.option(
    "--reservation", type=GIVEN, metavar="NAME", help="With --to: whose nodes [the dataset's]."
)
@click.option("--engine", type=GIVEN, metavar="NAME", help="How to copy [best for the source].")
@click.option(
    "--streams", type=click.IntRange(1, 1024), metavar="N", help="Files at once [the site's]."
)
@click.option(
    "--bandwidth",
    type=GIVEN,
    metavar="BYTES/S",
    help="At most so much, all sources together, as 500M [the site's].",
)
@click.option(
    "--repair-list",
    type=click.File(),
    metavar="FILE",
    help="Copy only the files that dataset verify --repair-list named.",
)
@click.option("--delete-extra", is_flag=True, help="Remove files that this version lacks.")
@click.option("--accept-sizes", is_flag=True, help="Files without a digest count by their size.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@SETTINGS_OPTION
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON, one line.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    sources: IO[str] | None,
    repair_list: IO[str] | None,
    dry_run: bool,
    config_path: str | None,
    as_json: bool,
    debug: bool,
    **given: Any,
) -> None:
    """Copy a dataset to this node, or those of --to: what is missing or wrong, and nothing else.

    Every file is hashed from the disk before it gets its name; killed at any moment, the same
    command goes on where it was. Exit code 0 ready, 1 whole but with extra files beside it (with
    --dry-run: there is something to do), 3 not done (with --dry-run: cannot be done).
    """
    if given["to"]:
        from slurm_io.reservation.staging.by_command import stage_by_command

        words = {**given, "sources": sources, "repair_list": repair_list}
        config = load(config_path)
        raise SystemExit(stage_by_command(config, config_path, words, dry_run, as_json, click.echo))
    if given.pop("reservation") is not None:
        raise UsageError("--reservation is for --to NODES")
    del given["to"]
    from slurm_io.staging.stage import wording
    from slurm_io.staging.stage.display import shown
    from slurm_io.staging.stage.ordering import Words, order_of
    from slurm_io.staging.stage.planning import plan
    from slurm_io.staging.stage.run import stage
    from slurm_io.staging.stage.signals import stop_on_signals

    order_words = Words(
        sources_json=None if sources is None else sources.read(),
        repair_lines=None if repair_list is None else repair_list.read(),
        **given,
    )
    order = order_of(load(config_path), order_words)
    if dry_run:
        planned = plan(order)
        text = [json.dumps(planned.to_dict())] if as_json else wording.plan_text(planned)
        click.echo("\n".join(text))
        raise SystemExit(planned.exit_code)
    with stop_on_signals() as stop, shown() as progress:
        answer = stage(order, progress, stop)
    text = [json.dumps(answer.to_dict())] if as_json else wording.answer_text(answer)
    click.echo("\n".join(text))
    raise SystemExit(answer.exit_code)
