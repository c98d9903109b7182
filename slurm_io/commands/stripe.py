"""``slurm-io stripe``: does the striping of a Lustre tree fit its files and their readers?"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slurm_io.commands import GIVEN, FiniteRange
from slurm_io.errors import HostError

if TYPE_CHECKING:
    from slurm_io.filesystems.layout.audit import Progress
    from slurm_io.filesystems.layout.osts import OstSet
    from slurm_io.filesystems.mounts import MountTable

OSTS_TIMEOUT_S = 10.0
Decorated = TypeVar("Decorated", bound=Callable[..., Any] | click.Command)


def _count(
    name: str, least: int, most: int, default: int | None, text: str
) -> Callable[[Decorated], Decorated]:
    """An option that takes a whole number from `least` to `most`."""
    number = click.IntRange(least, most)
    shown = default is not None
    return click.option(
        name, type=number, default=default, show_default=shown, metavar="N", help=text
    )


@click.command("stripe", short_help="Judge the Lustre layouts of a tree.")
@click.argument("path", type=GIVEN)
@_count("--readers", 1, 100_000, 8, "Nodes that read these files at once.")
@_count("--osts", 1, 65_535, None, "Active OSTs, where the client cannot tell.")
@_count("--most-osts", 1, 450, 72, "Never advise more OSTs than this.")
@_count("--sample", 1, 1_000_000, None, "Look at every Nth file only.")
@click.option(
    "--seconds",
    type=FiniteRange(0, min_open=True),
    metavar="S",
    help="Stop after so long and say what was left out.",
)
@_count("--processes", 1, 64, 1, "Walk with N processes: pays on a slow metadata server.")
@_count("--top", 0, 10_000, 20, "Show the N largest files of each kind of misfit; all are counted.")
@click.option("--json", "as_json", is_flag=True, help="All numbers as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    path: str, readers: int, osts: int | None, most_osts: int, sample: int | None,
    seconds: float | None, processes: int, top: int, as_json: bool, debug: bool,
) -> None:  # fmt: skip
    """Audit the Lustre layouts of the file or tree PATH.

    Prints how many files of which size lie on how many OSTs, which of them do not fit, and the
    commands that would mend them. None of these is ever run. Run it as a user who may read the
    files, or as root. Exit code 0 when all fit, 1 when files break the policy, 3 when no layout
    could be read.
    """
    import time

    from slurm_io.filesystems.layout.audit import audit
    from slurm_io.filesystems.layout.audit_report import as_json as to_json
    from slurm_io.filesystems.layout.audit_report import as_text, nothing_read
    from slurm_io.filesystems.layout.policy import Thresholds
    from slurm_io.filesystems.layout.question import Question
    from slurm_io.filesystems.mounts import read_mounts

    root, mounts = os.path.realpath(path), read_mounts()
    question = Question(
        root=root,
        readers=readers,
        thresholds=Thresholds(most_osts=most_osts),
        osts=_osts(root, osts, mounts),
        keep=top,
        sample_every=sample or 1,
        processes=processes,
        deadline_s=None if seconds is None else time.monotonic() + seconds,
    )
    try:
        with _progress() as progress:
            result = audit(question, progress)
    except OSError as error:
        what_to_do = (
            "run it as a user who may read it, or as root"
            if isinstance(error, PermissionError)
            else "give a folder or a file on a Lustre mount"
        )
        raise HostError(f"{path!a}: {error.strerror or error}; {what_to_do}") from error
    if not result.tally.layouts:
        raise HostError(nothing_read(question, result, mounts))
    click.echo(
        json.dumps(to_json(question, result), indent=2)
        if as_json
        else as_text(question, result).encode("utf-8", "replace").decode(),
        nl=as_json,
    )
    sys.exit(1 if result.findings else 0)


def _osts(root: str, given: int | None, mounts: MountTable) -> OstSet | None:
    from slurm_io.filesystems.layout.osts import OstSet, osts_of

    if given is not None:
        return OstSet(frozenset(range(given)), {}, "--osts")
    mount = mounts.of_path(root)
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
