"""``slurm-io dataset clean``: remove what killed copies left behind."""

from __future__ import annotations

import json
from typing import Any

import click

from slurm_io.commands import GIVEN
from slurm_io.config import load


@click.command(
    "clean",
    short_help="Remove what killed copies left behind.",
    epilog="Example: slurm-io dataset clean c4 --dry-run",
)
@click.argument("name", required=False, metavar="[NAME[@CONTENT-ID]]")
@click.option(
    "--path", type=click.Path(file_okay=False), metavar="DIR", help="A folder instead of a NAME."
)
@click.option("--manifest", type=GIVEN, metavar="FILE", help="Whose files are never removed.")
@click.option(
    "--tier", type=click.Choice(["local", "shared"]), help="Which copy [the site's choice]."
)
@click.option("--dry-run", is_flag=True, help="List, and remove nothing.")
@click.option(
    "--config", "config_path", type=GIVEN, metavar="FILE", help="The site's configuration file."
)
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON, one line.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    dry_run: bool, config_path: str | None, as_json: bool, debug: bool, **given: Any
) -> None:
    """Remove temporary files of killed copies from a dataset's folder.

    Only names that rsync, s5cmd, rclone and dataset stage give to unfinished files, older than the
    site's stage.debris_age_s, and never one that the manifest has. Exit code 0; 1 with --dry-run
    when there is something to remove; 3 when something could not be removed.
    """
    from slurm_io.staging.manifest.paths import printable
    from slurm_io.staging.manifest.summary import human_bytes
    from slurm_io.staging.stage import janitor
    from slurm_io.staging.stage.clearing import Cleared
    from slurm_io.staging.stage.display import duration
    from slurm_io.staging.stage.ordering import Words, order_of

    order = order_of(load(config_path), Words(**given))
    if dry_run:
        debris = janitor.find(order)
        cleared = Cleared(debris.paths, debris.total_bytes)
    else:
        cleared = janitor.clean(order)
    paths, size, problems = cleared.removed, cleared.freed_bytes, cleared.problems
    if as_json:
        facts = {"paths": paths, "bytes": size, "problems": problems, "dry_run": dry_run}
        click.echo(json.dumps(facts))
    else:
        verb = "would be removed" if dry_run else "removed"
        lines = [printable(path) for path in paths]
        limit = f"only what nobody touched for {duration(order.debris_age_s)}: stage.debris_age_s"
        lines.append(f"{len(paths)} entries {verb}, {human_bytes(size)} ({limit})")
        click.echo("\n".join(lines))
        for problem in problems:
            click.echo(f"slurm-io: {problem}", err=True)
    raise SystemExit(3 if problems else int(dry_run and bool(paths)))
