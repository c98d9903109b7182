"""How far a stage is: a bar on a terminal, elsewhere a line every ten seconds."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

from slurm_io.staging.manifest.summary import human_bytes
from slurm_io.staging.stage.order import OnProgress, Progress

LINE_EVERY_S = 10.0
_LABELS = {"planning": "hashing what lies here", "copying": "copying", "verifying": "verifying"}


@contextlib.contextmanager
def shown() -> Iterator[OnProgress]:
    """What shows progress on standard error while the block runs."""
    if not sys.stderr.isatty():
        yield Lines(lambda text: print(text, file=sys.stderr, flush=True))
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("staging", total=None)

        def show(progress: Progress) -> None:
            label = _LABELS.get(progress.phase, progress.phase)
            bar.update(
                task,
                description=label,
                total=progress.total_bytes or None,
                completed=progress.done_bytes,
            )

        yield show


class Lines:
    """One line every ten seconds, from whichever thread reports."""

    def __init__(
        self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._clock = clock
        self._lock = threading.Lock()
        self._next_s = clock() + LINE_EVERY_S
        self._phase = ""
        self._began: tuple[float, int] = (0.0, 0)

    def __call__(self, progress: Progress) -> None:
        """Write a line when it is time."""
        with self._lock:
            now_s = self._clock()
            if progress.phase != self._phase:
                self._phase, self._began = progress.phase, (now_s, progress.done_bytes)
            if now_s < self._next_s:
                return
            self._next_s = now_s + LINE_EVERY_S
            self._write(f"slurm-io: {self._text(progress, now_s)}")

    def _text(self, progress: Progress, now_s: float) -> str:
        began_s, began_bytes = self._began
        passed_s = now_s - began_s
        rate = (progress.done_bytes - began_bytes) / passed_s if passed_s > 0 else 0.0
        text = (
            f"{_LABELS.get(progress.phase, progress.phase)} {human_bytes(progress.done_bytes)} of "
            f"{human_bytes(progress.total_bytes)}"
        )
        if rate <= 0:
            return text
        left_s = max(0, progress.total_bytes - progress.done_bytes) / rate
        return f"{text}, {human_bytes(int(rate))}/s, about {duration(left_s)} left"


def duration(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
