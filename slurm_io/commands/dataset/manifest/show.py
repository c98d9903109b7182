"""``slurm-io dataset manifest show``: what a manifest holds."""

from __future__ import annotations

import json

import click

from slurm_io.commands import GIVEN


@click.command("show", short_help="Show what a manifest holds.")
@click.argument("manifest", type=GIVEN)
@click.option("--header", "header_only", is_flag=True, help="The header alone: reads nothing else.")
@click.option("--files", "with_files", is_flag=True, help="Every file too, one line each.")
@click.option("--json", "as_json", is_flag=True, help="As JSON (with --files: one line a file).")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(manifest: str, header_only: bool, with_files: bool, as_json: bool, debug: bool) -> None:
    """Show header, totals, sizes, roles and the biggest files of MANIFEST, which is checked.

    Exit code 3 when it is damaged, truncated or no manifest.
    """
    from slurm_io.staging.manifest.files import open_manifest, read_header
    from slurm_io.staging.manifest.paths import printable
    from slurm_io.staging.manifest.rows import entry_row, header_row
    from slurm_io.staging.manifest.summary import header_lines, human_bytes, summarise

    if header_only:
        header = read_header(manifest)
        lines = [json.dumps(header_row(header))] if as_json else header_lines(header)
        click.echo("\n".join(lines))
        return
    whole = open_manifest(manifest)
    summary = summarise(whole)
    click.echo(json.dumps(summary.as_json()) if as_json else "\n".join(summary.lines()))
    for entry in whole.files if with_files else ():
        if as_json:
            click.echo(json.dumps(entry_row(entry)))
        else:
            size = human_bytes(entry.size_bytes)
            click.echo(
                f"{size:>9}  {entry.digest or '-'}  {entry.role:<8}  {printable(entry.path)}"
            )
