"""``slurm-io dataset manifest diff``: how two manifests differ."""

from __future__ import annotations

import json

import click

from slurm_io.commands import GIVEN


@click.command("diff", short_help="Compare two manifests.")
@click.argument("old", type=GIVEN)
@click.argument("new", type=GIVEN)
@click.option("--json", "as_json", is_flag=True, help="The differences as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(old: str, new: str, as_json: bool, debug: bool) -> None:
    """Say what was added, removed, renamed and changed from manifest OLD to NEW.

    Exit code 0 when both name the same files of the same dataset, 1 when they differ, 3 when one
    cannot be read. When and by whom they were built does not count.
    """
    from slurm_io.staging.manifest.diff import compare
    from slurm_io.staging.manifest.files import open_manifest

    found = compare(open_manifest(old), open_manifest(new))
    click.echo(json.dumps(found.as_json()) if as_json else "\n".join(found.lines()))
    if not found.is_none:
        raise SystemExit(1)
