"""``slurm-io dataset manifest build``: hash a folder into a manifest."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from slurm_io.commands import GIVEN
from slurm_io.errors import ManifestError, UsageError


@click.command("build", short_help="Hash a folder into a manifest.")
@click.argument("folder", type=click.Path(file_okay=False))
@click.option(
    "-o", "--output", type=GIVEN, required=True, metavar="FILE", help="The manifest to write."
)
@click.option("--dataset", metavar="NAME", help="Name of the dataset [the folder's own].")
@click.option(
    "--algorithm",
    default="xxh3-128",
    show_default=True,
    metavar="NAME",
    help="Digest of each file: also blake3, sha256 and others.",
)
@click.option("--chunks", is_flag=True, help="Digests of every 256 MiB too (for repairs).")
@click.option(
    "--chunk-bytes", type=click.IntRange(1 << 16), metavar="N", help="Digests of pieces so large."
)
@click.option("--no-ends", is_flag=True, help="No digest of the first and last 64 KiB.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave such names out.")
@click.option("--no-default-excludes", is_flag=True, help="Keep debris of copy tools too.")
@click.option(
    "--follow-links",
    type=click.Choice(["refuse", "inside"]),
    default="refuse",
    show_default=True,
    help="Symbolic links: an error, or files when they stay inside.",
)
@click.option("--keep-going", is_flag=True, help="Write it without the files that cannot be read.")
@click.option("--no-resume", is_flag=True, help="Hash all again, whatever a killed build left.")
@click.option("--drop-cache", is_flag=True, help="Leave nothing in the page cache.")
@click.option(
    "--jobs", type=click.IntRange(1, 1024), metavar="N", help="Files hashed at once [one a core]."
)
@click.option(
    "--form",
    type=click.Choice(["jsonl", "parquet"]),
    help="Form of the manifest [by FILE's suffix, else Parquet above 100,000 files].",
)
@click.option("--source", "sources", multiple=True, metavar="URL", help="Where it came from.")
@click.option("--token-dtype", metavar="DTYPE", help="NumPy dtype of the tokens (uint16).")
@click.option(
    "--vocabulary", type=click.IntRange(1), metavar="N", help="Size of the tokens' vocabulary."
)
@click.option(
    "--layout",
    multiple=True,
    metavar="JSON",
    help='Striping hint, such as {"min_size_bytes": 10000000000, "stripe_count": 8}.',
)
@click.option(
    "--free-bytes", type=click.IntRange(0), metavar="N", help="Free space a node needs for it."
)
@click.option(
    "--fstype", "fstypes", multiple=True, metavar="TYPE", help="A file system it may lie on."
)
@click.option(
    "--retention-days", type=click.IntRange(0), metavar="N", help="How long copies are kept."
)
@click.option("--note", "notes", multiple=True, metavar="TEXT", help="For people.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(folder: str, output: str, as_json: bool, debug: bool, **given: Any) -> None:
    """Write the manifest of all files below FOLDER.

    A build that was killed goes on where it was when started again. Exit code 0 when the manifest
    names every file, 1 when --keep-going left some out, 3 when there is none; every path that
    cannot be in it is listed on standard error.
    """
    from slurm_io.staging.manifest.build import BuildProblems, build
    from slurm_io.staging.manifest.files import refuse_devices
    from slurm_io.staging.manifest.progress_bar import build_progress
    from slurm_io.staging.manifest.rows import header_row
    from slurm_io.staging.manifest.summary import header_lines

    refuse_devices(output)  # now, not after the hashing
    options = _options(folder, given)
    try:
        with build_progress() as progress:
            result = build(folder, output, options, progress)
    except BuildProblems as failed:
        _tell_problems(failed.problems)
        raise
    except KeyboardInterrupt:
        click.echo("what was hashed is kept: start it again to go on from there", err=True)
        raise
    _tell_problems(result.problems)
    if as_json:
        facts = asdict(result)
        facts["header"] = header_row(result.header)
        click.echo(json.dumps({"manifest": output, **facts}))
    else:
        for line in header_lines(result.header):
            click.echo(line)
        rate = (result.header.total_bytes or 0) / 1e9 / max(result.seconds, 1e-9)
        click.echo(
            f"written     {output!a} ({result.form}), {result.seconds:.1f} s, {rate:.2f} GB/s"
            + (
                f", {result.resumed_files} file(s) from an earlier build"
                * (result.resumed_files > 0)
            )
        )
    if result.problems:
        raise SystemExit(1)


def _tell_problems(problems: Any) -> None:
    from slurm_io.staging.manifest.paths import printable

    for problem in problems:
        click.echo(f"{printable(problem.path)}: {problem.reason}", err=True)


def _options(folder: str, given: dict[str, Any]) -> Any:
    """The options of the build. Raises UsageError."""
    from slurm_io.staging.manifest.build import CHUNK_BYTES, BuildOptions, new_template
    from slurm_io.staging.manifest.model import Tokens
    from slurm_io.staging.manifest.rows import header_of, header_row

    _check_words(given)
    tokens = Tokens(given["token_dtype"], given["vocabulary"]) if given["token_dtype"] else None
    requires = {"free_bytes": given["free_bytes"], "fstypes": list(given["fstypes"]) or None}
    template = new_template(
        given["dataset"] or Path(folder).resolve().name,
        tokens=tokens,
        sources=given["sources"],
        layout=tuple(_layout(text) for text in given["layout"]),
        requires={key: value for key, value in requires.items() if value is not None},
        retention_days=given["retention_days"],
        notes=given["notes"],
    )
    # A bad fact must show now, not after the hashing: read it as a reader of the manifest will.
    try:
        header_of({**header_row(template), "content_id": "c1-" + "0" * 32})
    except ManifestError as error:
        raise UsageError(str(error)) from error
    return BuildOptions(
        template,
        algorithm=given["algorithm"],
        ends=not given["no_ends"],
        chunk_bytes=given["chunk_bytes"] or (CHUNK_BYTES if given["chunks"] else None),
        exclude=given["exclude"],
        default_excludes=not given["no_default_excludes"],
        follow_links=given["follow_links"],
        keep_going=given["keep_going"],
        resume=not given["no_resume"],
        drop_cache=given["drop_cache"],
        workers=given["jobs"],
        form=given["form"],
    )


def _check_words(given: dict[str, Any]) -> None:
    """Algorithm, type and number of tokens. Raises UsageError."""
    from slurm_io.staging.manifest.algorithms import ALGORITHMS
    from slurm_io.staging.megatron import ITEM_BYTES, largest_token

    dtype, vocabulary = given["token_dtype"], given["vocabulary"]
    if given["algorithm"] not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise UsageError(f"--algorithm {given['algorithm']!a:.60} is not one of {known}")
    if vocabulary and not dtype:
        raise UsageError("--vocabulary needs --token-dtype")
    if dtype and dtype not in ITEM_BYTES:
        raise UsageError(f"--token-dtype {dtype!a:.60} is not one of {', '.join(ITEM_BYTES)}")
    largest = largest_token(dtype) if dtype else None
    if vocabulary and largest is not None and vocabulary > largest + 1:
        raise UsageError(f"--vocabulary {vocabulary} is too large: {dtype} ends at {largest}")


def _layout(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--layout {text!a:.80} is not JSON: {error}") from error
