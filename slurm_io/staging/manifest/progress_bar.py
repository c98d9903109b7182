"""A progress bar on standard error, when that is a terminal; else nothing at all."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from slurm_io.staging.manifest.build import OnProgress, Progress

_LABELS = {"listing": "Listing", "hashing": "Hashing", "checking": "Checking again"}


@contextlib.contextmanager
def build_progress() -> Iterator[OnProgress | None]:
    """What shows a build's progress while the block runs; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[files]}"),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Listing", total=None, files="")

        def show(progress: Progress) -> None:
            count = f"{progress.files}"
            if progress.files_total is not None:
                count += f"/{progress.files_total}"
            bar.update(
                task,
                description=_LABELS[progress.phase],
                total=progress.bytes_total,
                completed=progress.bytes,
                files=f"{count} files",
            )

        yield _seldom(show)


def _seldom(show: OnProgress, least_s: float = 0.05) -> Callable[[Progress], None]:
    """Passes on at most 20 reports a second: a million files report more often than eyes see."""
    import time

    last = [0.0]

    def passed_on(progress: Progress) -> None:
        now = time.monotonic()
        if now - last[0] >= least_s:
            last[0] = now
            show(progress)

    return passed_on
