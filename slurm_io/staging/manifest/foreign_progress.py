"""A progress bar on standard error while an import looks at a copy; nothing without a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from slurm_io.staging.manifest.foreign_local import OnProgress


@contextlib.contextmanager
def import_progress() -> Iterator[OnProgress | None]:
    """What shows how many files and bytes were looked at; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.fields[files]} files"), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, files=0)
        yield lambda files, done_bytes: bar.update(task, completed=done_bytes, files=files)
