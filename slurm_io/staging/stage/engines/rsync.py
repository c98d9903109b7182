"""Engine ``rsync``: pulls from an rsync daemon of a healthy neighbour (``dataset serve``).

Needs: ``rsync`` 3.1 or newer on both sides. Names travel NUL separated on standard input, so any
name will do; the secret travels in the environment, never on a command line. Deletes nothing,
follows and makes no links. A file that an earlier call left short is gone on with at its end
(``--append``): neither the peer's disk nor the link carries the first part again, and no
temporary file is ever left behind.
"""

from __future__ import annotations

import os
import re
import threading

from slurm_io.host.run import TOOL_FOLDERS, find_tool
from slurm_io.staging.stage import landing
from slurm_io.staging.stage.child import run_child
from slurm_io.staging.stage.engines.base import ENGINES, FetchOptions
from slurm_io.staging.stage.model import Batch, Fetched, SourceKind, SourceSpec
from slurm_io.staging.stage.rsync_judge import Run, verdict, was_turned_away
from slurm_io.staging.stage.rsync_text import complaints, of_exit_code
from slurm_io.staging.stage.rsync_watch import Progress, Watch
from slurm_io.staging.stage.writers import Writers

_WHERE = re.compile(r"rsync://[^/\s\0@]+@(\[[0-9A-Fa-f:.]+\]|[^/\s\0:@\[\]]+):\d+/[A-Za-z0-9._-]+")
_ALWAYS = ("--files-from=-", "--from0", "--no-motd")
_LOOK = ("--list-only",)
_COPY = (
    "--append",
    "--perms",
    "--chmod=D755,F644",
    "--no-human-readable",
    "--info=progress2,nonreg1",
    "--outbuf=N",
)
_KIB = 1024


@ENGINES.register("rsync")
class Rsync:
    """One peer; each call is one connection."""

    kinds: tuple[SourceKind, ...] = ("peer",)
    batch_files = 500
    silence_s = 60
    """A link without a byte for so long is broken."""
    connect_s = 20

    def __init__(self, source: SourceSpec) -> None:
        self._where = source.where.rstrip("/")
        self._secret = source.secret or ""
        self._writers = Writers()

    @classmethod
    def missing(cls) -> str | None:
        """None when rsync is here."""
        return None if find_tool("rsync") else "rsync is not installed (package rsync)"

    def problem(self) -> str | None:
        """None when the peer lets us in."""
        if (fault := self._fault()) is not None:
            return fault
        look = [*self._argv(*_LOOK), f"{self._where}/", "/"]
        progress = Progress(lambda _: None, 0)
        watch = Watch(progress, threading.Event(), self.silence_s)
        try:
            ended = run_child(
                look, self._environment(), b".", watch.end, progress.take, look=watch.look
            )
        except OSError as error:
            return f"rsync cannot be run: {error.strerror or error}"
        said = complaints(ended.errors)
        if ended.return_code == 0 or was_turned_away(said):
            return None
        if watch.is_hung:
            return "the peer does not answer"
        _, text = of_exit_code(ended.return_code)
        return f"{text} ({said.last})" if said.last else text

    def fetch(self, batch: Batch, room: str, options: FetchOptions) -> Fetched:
        """Bring the files of one batch over one connection."""
        if (fault := self._fault()) is not None:
            return Fetched((), landing.all_failed(batch.files, fault, "source"))
        try:
            held = self._writers.descriptor(room)
            had_bytes = sum(landing.begun(room, entry) for entry in batch.files)
            progress = Progress(options.moved, had_bytes)
            argv = [*self._argv(*_COPY, *_limit(options)), f"{self._where}/", f"{room}/"]
            names = b"\0".join(os.fsencode(entry.path) for entry in batch.files)
            watch = Watch(progress, options.stop, self.silence_s)
            ended = run_child(
                argv, self._environment(), names, watch.end, progress.take, [held], watch.look
            )
        except TimeoutError as error:
            return Fetched((), landing.all_failed(batch.files, str(error), "link"))
        except OSError as error:
            return Fetched((), tuple(landing.target_failure(e, error) for e in batch.files))
        run = Run(ended, complaints(ended.errors), progress.output, watch.is_hung)
        verdicts = [verdict(entry, room, run) for entry in batch.files]
        failures = tuple(failure for failure in verdicts if failure is not None)
        bad = {failure.path for failure in failures}
        here_bytes = sum(landing.size_at(room, entry.path) or 0 for entry in batch.files)
        moved_bytes = progress.finish(here_bytes - had_bytes)
        done = tuple(entry.path for entry in batch.files if entry.path not in bad)
        return Fetched(done, failures, moved_bytes)

    def close(self) -> None:
        """Calls have ended; let go of the rooms."""
        self._writers.close()

    def _fault(self) -> str | None:
        """Why rsync must not be given this: it may take it for an option, or for a host of ssh."""
        if _WHERE.fullmatch(self._where):
            return None
        return f"{self._where!a:.200} is not of the form rsync://USER@HOST:PORT/MODULE"

    def _argv(self, *options: str) -> list[str]:
        limits = [f"--timeout={self.silence_s}", f"--contimeout={self.connect_s}"]
        return [find_tool("rsync") or "/usr/bin/rsync", *_ALWAYS, *limits, *options]

    def _environment(self) -> dict[str, str]:
        path = ":".join(TOOL_FOLDERS)
        return {"PATH": path, "LC_ALL": "C", "RSYNC_PASSWORD": self._secret}


def _limit(options: FetchOptions) -> list[str]:
    """rsync counts in KiB/s, and 0 would be no limit."""
    if not options.bandwidth_bytes_s:
        return []
    return [f"--bwlimit={max(1, options.bandwidth_bytes_s // _KIB)}"]
