"""``slurm-io dataset serve``: hand a verified copy on to other nodes, for a while."""

from __future__ import annotations

import json
from typing import Any

import click

from slurm_io.commands import GIVEN, FiniteRange
from slurm_io.config import load


@click.command(
    "serve",
    short_help="Hand a verified copy on to other nodes, for a while.",
    epilog="Example: slurm-io dataset serve c4 --allow node17 --show-secret",
)
@click.argument("name", metavar="NAME[@CONTENT-ID]")
@click.option(
    "--allow",
    multiple=True,
    required=True,
    type=GIVEN,
    metavar="HOST",
    help="Who may fetch: node, address or network; again for more.",
)
@click.option(
    "--tier", type=click.Choice(["local", "shared"]), help="Which copy [the site's choice]."
)
@click.option("--secret-stdin", is_flag=True, help="Read the secret, one line, from stdin.")
@click.option("--show-secret", is_flag=True, help="Print the secret with the rest.")
@click.option("--host", type=GIVEN, metavar="NAME", help="Our name as targets know it.")
@click.option("--bind", default="", metavar="ADDRESS", help="Listen on this address only [all].")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port [a free one]."
)
@click.option(
    "--connections",
    type=click.IntRange(1, 1024),
    default=16,
    show_default=True,
    metavar="N",
    help="So many at once.",
)
@click.option(
    "--lifetime",
    type=FiniteRange(1),
    default=86400,
    show_default=True,
    metavar="S",
    help="End after S seconds in any case.",
)
@click.option(
    "--idle",
    type=FiniteRange(1),
    default=600,
    show_default=True,
    metavar="S",
    help="End when nobody was here for S seconds.",
)
@click.option(
    "--bwlimit",
    type=click.IntRange(0),
    default=0,
    metavar="BYTES/S",
    help="All connections together [no limit].",
)
@click.option("--config", "config_path", type=GIVEN, metavar="FILE", help="The site's file.")
@click.option("--json", "as_json", is_flag=True, help="Accepted; the answer is JSON anyway.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(name: str, config_path: str | None, as_json: bool, debug: bool, **given: Any) -> None:
    """Serve a dataset's copy to the nodes of --allow, in the foreground.

    Prints one JSON line (host, port, user, module, secret, content_id, until, where) and serves
    until stopped, idle, too old, or until the copy is no longer ready. Only a copy that this node
    verified (dataset verify --record) is served, read only. Exit code 0 served, 3 could not.
    """
    from slurm_io.staging.stage.serving import Asked, serve_dataset

    asked = Asked(name=name, secret_on_stdin=given.pop("secret_stdin"), **given)
    serve_dataset(
        load(config_path), asked, lambda told: click.echo(json.dumps(told.to_dict()), nl=True)
    )
