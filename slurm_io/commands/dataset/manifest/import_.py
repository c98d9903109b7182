"""``slurm-io dataset manifest import``: a manifest from what other tools wrote down."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from slurm_io.commands import GIVEN

_SHOWN = 1000  # a wrong --root makes every file missing


@click.command("import", short_help="Make one from what another tool wrote.")
@click.argument("source", type=GIVEN)
@click.option(
    "-o", "--output", type=GIVEN, required=True, metavar="OUT", help="The manifest to write."
)
@click.option("--format", "format_name", metavar="NAME", help="What SOURCE is [by content].")
@click.option(
    "--root", metavar="DIR", help="A copy of the files: fill in sizes, find what differs."
)
@click.option("--hash", "hashing", is_flag=True, help="Read the copy: compare and add digests.")
@click.option("--dataset", metavar="NAME", help="Name of the dataset [the source's folder].")
@click.option("--prefix", default="", metavar="PREFIX", help="Cut this off every path of SOURCE.")
@click.option("--algorithm", metavar="NAME", help="Which digests sum files hold [by length, name].")
@click.option(
    "--vocabulary",
    type=click.IntRange(1),
    metavar="N",
    help="Number of token ids: must fit a token.",
)
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(source: str, output: str, as_json: bool, debug: bool, **given: Any) -> None:
    """Write a manifest from SOURCE: a bag, sum file, MosaicML index.json, wids index, Megatron
    .idx, datatrove .ds, safetensors index, Hugging Face dataset, S3 listing or inventory.

    Exit code 0 when nothing disagrees, 1 when the copy or the source itself does (the manifest is
    written and says what the source says), 3 when SOURCE cannot be read.
    """
    from slurm_io.staging.manifest.foreign_import import ImportRequest, import_manifest
    from slurm_io.staging.manifest.foreign_progress import import_progress
    from slurm_io.staging.manifest.imports.base import ImportOptions
    from slurm_io.staging.manifest.rows import header_row
    from slurm_io.staging.manifest.summary import header_lines

    options = ImportOptions(given["root"], given["prefix"], given["algorithm"], given["vocabulary"])
    request = ImportRequest(
        source, given["format_name"], given["dataset"], given["hashing"], options
    )
    with import_progress() as on_progress:
        result, form = import_manifest(request, output, on_progress)
    header = result.manifest.header
    if as_json:
        problems = [asdict(problem) for problem in result.problems]
        facts = {"manifest": output, "format": result.format, "form": form}
        click.echo(json.dumps({**facts, "header": header_row(header), "problems": problems}))
    else:
        _tell_problems(result.problems)
        for line in header_lines(header):
            click.echo(line)
        click.echo(f"written     {output!a} ({form}), from {result.format}")
    if result.problems:
        raise SystemExit(1)


def _tell_problems(problems: Any) -> None:
    from slurm_io.staging.manifest.paths import printable

    for problem in problems[:_SHOWN]:
        click.echo(f"{problem.kind}: {printable(problem.path)}: {problem.text}", err=True)
    if len(problems) > _SHOWN:
        click.echo(f"and {len(problems) - _SHOWN} more; --json lists them all", err=True)
