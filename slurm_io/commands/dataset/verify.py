"""``slurm-io dataset verify``: is this copy whole and current."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from slurm_io.commands import GIVEN, FiniteRange
from slurm_io.config import load
from slurm_io.errors import UsageError

if TYPE_CHECKING:
    from slurm_io.staging.verify.by_hand import What
    from slurm_io.staging.verify.model import BadFile, VerifyAnswer
    from slurm_io.staging.verify.work import Progress

_EXIT = {"OK": 0, "DEGRADED": 1, "FAIL": 1, "UNKNOWN": 3}
_SHOWN = 20


@click.command("verify", short_help="Say whether a copy is whole and current.")
@click.argument("name", required=False, metavar="[NAME[@CONTENT-ID]]")
@click.option(
    "--path", type=click.Path(file_okay=False), metavar="DIR", help="A folder instead of a NAME."
)
@click.option("--manifest", type=GIVEN, metavar="FILE", help="The manifest to compare with.")
@click.option(
    "--tier", type=click.Choice(["local", "shared"]), help="Which copy [the site's choice]."
)
@click.option(
    "--level",
    type=click.IntRange(0, 4),
    default=2,
    show_default=True,
    metavar="N",
    help="How deep.",
)
@click.option("--budget", type=FiniteRange(0.01), metavar="S", help="End after S seconds.")
@click.option(
    "--record", "keep_record", is_flag=True, help="Keep on this node what was proven (as root)."
)
@click.option("--repair-list", type=GIVEN, metavar="FILE", help="Write files to copy again.")
@click.option("--ignore-extra", is_flag=True, help="Files nobody expects change no answer.")
@click.option(
    "--sample",
    type=FiniteRange(0, 1),
    default=0.05,
    show_default=True,
    metavar="SHARE",
    help="Share of the files that level 3 hashes.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 1024), metavar="N", help="Threads [one a CPU, at least 4]."
)
@click.option("--idle", is_flag=True, help="Lowest CPU and disk priority.")
@click.option(
    "--config", "config_path", type=GIVEN, metavar="FILE", help="The site's configuration file."
)
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    name: str | None,
    tier: str | None,
    as_json: bool,
    config_path: str | None,
    debug: bool,
    **given: Any,
) -> None:
    """Verify a dataset's copy: NAME from the site's configuration, or --path with --manifest.

    Levels: 0 this node's record; 1 stat of all files; 2 residency, heads and tails; 3 full hash of
    index files and of a rotating sample; 4 full hash. Exit code 0 all is well, 1 a bad, missing or
    extra file, 3 it could not be told.
    """
    from slurm_io.staging.datasets import state_folder
    from slurm_io.staging.verify.by_hand import How, from_paths, from_registry, verify_by_hand
    from slurm_io.staging.verify.work import Options

    config = load(config_path)
    if bool(name) == bool(given["path"]):
        raise UsageError("give a dataset's NAME, or --path DIR (with --manifest FILE)")
    if name:
        what = _with_manifest(from_registry(config, name, tier), given["manifest"])
    else:
        what = from_paths(given["path"], given["manifest"], tier)
    if given["idle"]:
        _lower_priority()
    with _progress() as progress, _repair_list(given["repair_list"]) as on_bad:
        options = Options(
            probe_files=2400,
            random_probes=2,
            sample_share=given["sample"],
            workers=given["jobs"] or 0,
            extra_is_fine=given["ignore_extra"],
            on_bad=on_bad,
            progress=progress,
        )
        state = state_folder(config)
        how = How(given["level"], given["budget"], given["keep_record"], state, options)
        answer, record, refused = verify_by_hand(what, how)
    if as_json:
        facts = {"dataset": what.name, "tier": what.tier, "path": what.path, **answer.to_dict()}
        facts["record"] = None if record is None else record.to_dict()
        facts["record_refused"] = refused or None
        click.echo(json.dumps(facts))
    else:
        click.echo("\n".join(_text(answer)))
        if record is not None:
            click.echo(f"record    {record.state}, every file at level {record.level} or deeper")
    if refused:
        click.echo(f"slurm-io: {refused}", err=True)
    raise SystemExit(_EXIT[answer.answer] or (3 if refused else 0))


def _with_manifest(what: What, manifest: str | None) -> What:
    from dataclasses import replace

    return what if manifest is None else replace(what, manifest=manifest)


def _text(answer: VerifyAnswer) -> list[str]:
    from slurm_io.staging.manifest.paths import printable

    lines = [f"{answer.answer:<9} {answer.text}"]
    if answer.content_id is not None:
        lines.append(f"version   {answer.content_id}")
    for bad in answer.bad_files[:_SHOWN]:
        lines.append(f"  {bad.why:<10} {printable(bad.path)}  {bad.detail}")
    if answer.bad_count > _SHOWN:
        lines.append(f"  … {answer.bad_count - _SHOWN} more: --json or --repair-list")
    lines += [f"not seen  {note}" for note in answer.not_looked_at]
    lines.append(
        f"looked at {answer.files_stated} stats, {answer.files_probed} probed, "
        f"{answer.files_hashed} hashed, {_read(answer)}"
    )
    return lines


def _read(answer: VerifyAnswer) -> str:
    if not answer.bytes_read:
        return f"nothing read, {answer.seconds:.2f} s"
    rate = answer.bytes_read / 1e9 / max(answer.seconds, 1e-9)
    return f"{answer.bytes_read} bytes read in {answer.seconds:.2f} s ({rate:.2f} GB/s)"


@contextlib.contextmanager
def _repair_list(path: str | None) -> Iterator[Callable[[BadFile], None] | None]:
    """Writes every file that a new copy would mend: one JSON object a line."""
    if path is None:
        yield None
        return
    from slurm_io.staging.manifest.files import replaced

    with replaced(path) as file:

        def write(bad: BadFile) -> None:
            if bad.repairable:
                file.write(json.dumps(bad.to_dict()).encode() + b"\n")

        yield write


@contextlib.contextmanager
def _progress() -> Iterator[Progress | None]:
    """A bar on standard error, when that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        tasks: dict[int, Any] = {}

        def show(level: int, done: int, of_all: int) -> None:
            if level not in tasks:
                tasks[level] = bar.add_task(f"Level {level}", total=of_all or None)
            bar.update(tasks[level], completed=done)

        yield show


def _lower_priority() -> None:
    """Before any thread starts: threads inherit it."""
    import os

    import psutil

    os.nice(19)
    psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)
