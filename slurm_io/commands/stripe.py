"""``slurm-io stripe``: does the striping of a Lustre tree fit its files and their readers?"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from slurm_io.errors import HostError, UsageError

if TYPE_CHECKING:
    from slurm_io.filesystems.layout.audit import Progress, Question
    from slurm_io.filesystems.layout.osts import OstSet

OSTS_TIMEOUT_S = 10.0


@click.command("stripe")
@click.argument("path")
@click.option(
    "--readers",
    type=click.IntRange(1, 100_000),
    default=8,
    show_default=True,
    help="Nodes that read these files at once.",
)
@click.option(
    "--osts", type=click.IntRange(1, 65_535), help="Active OSTs, where the client cannot tell."
)
@click.option(
    "--most-osts",
    type=click.IntRange(1, 450),
    default=72,
    show_default=True,
    help="Never advise more OSTs than this.",
)
@click.option(
    "--sample",
    "sample_every",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Look at every Nth file only.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    help="Stop after so long and say what was left out.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Walk with several processes: pays on a slow metadata server.",
)
@click.option(
    "--top",
    type=click.IntRange(0, 10_000),
    default=20,
    show_default=True,
    help="Show this many of the worst files of each kind.",
)
@click.option("--json", "as_json", is_flag=True, help="All numbers as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    path: str, readers: int, osts: int | None, most_osts: int, sample_every: int,
    seconds: float | None, processes: int, top: int, as_json: bool, debug: bool,
) -> None:  # fmt: skip
    """Audit the Lustre layouts of the file or tree PATH.

    Prints how many files of which size lie on how many OSTs, which of them do not fit, and the
    commands that would mend them. None of these is ever run. Exit code 1 when files break the
    policy, 3 when no layout could be read.
    """
    import time

    from slurm_io.filesystems.layout.audit import Question, audit
    from slurm_io.filesystems.layout.audit_report import as_json as to_json
    from slurm_io.filesystems.layout.audit_report import as_text
    from slurm_io.filesystems.layout.policy import Thresholds

    root = os.path.realpath(path)
    question = Question(
        root=root,
        readers=readers,
        thresholds=Thresholds(most_osts=most_osts),
        osts=_osts(root, osts),
        keep=top,
        sample_every=sample_every,
        processes=processes,
        deadline_s=None if seconds is None else time.monotonic() + seconds,
    )
    try:
        with _progress() as progress:
            result = audit(question, progress)
    except OSError as error:
        reason = error.strerror or str(error)
        kind = UsageError if isinstance(error, FileNotFoundError) else HostError
        raise kind(f"{path!a}: {reason}; give a folder or a file on a Lustre mount") from error
    if not result.tally.layouts:
        raise HostError(_nothing_read(question, result.tally.files, result.tally.not_lustre))
    click.echo(
        json.dumps(to_json(question, result), indent=2)
        if as_json
        else as_text(question, result).encode("utf-8", "replace").decode(),
        nl=as_json,
    )
    sys.exit(1 if result.findings else 0)


def _nothing_read(question: Question, files: int, not_lustre: int) -> str:
    where = ascii(question.root)
    if files == 0:
        return f"{where}: no file was looked at, so nothing can be said"
    if not_lustre:
        return (
            f"{where} does not lie on Lustre ({not_lustre} files ask for no layout): nothing to do"
        )
    return (
        f"{where}: no layout of {files} files could be read: run it as a user who may read them,"
        " or as root"
    )


def _osts(root: str, given: int | None) -> OstSet | None:
    from slurm_io.filesystems.layout.osts import OstSet, osts_of
    from slurm_io.filesystems.mounts import read_mounts

    if given is not None:
        return OstSet(frozenset(range(given)), {}, "--osts")
    mount = read_mounts().of_path(root)
    if mount is None or mount.kind != "lustre":
        return None
    return osts_of(mount.mount_point, mount.source, OSTS_TIMEOUT_S)


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """A line on stderr that counts, only where somebody can see it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("0 files")
        yield lambda tally: bar.update(
            task, description=f"{tally.files} files, {tally.directories} directories"
        )
