"""What an engine is, what it is told and gives, and where engines register.

An engine is one module of this folder, registered under its own name. It brings bytes and says
what it could not bring. It never judges content: the driver hashes every file against the
manifest before the file gets its name, whatever the engine's exit code was (rsync calls equal size
and mtime equal content; s5cmd checks no download and can print ERROR and exit 0, peak/s5cmd#869).

Files go into `room`, a folder that only we know, at ``room/<path>``; a partly copied file of an
earlier run may lie there already and may be gone on with when the engine can.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from slurm_io.registry import Registry
from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage.model import Batch, Fetched, SourceKind, SourceSpec

Moved = Callable[[int], None]
"""Called with bytes that have arrived since the last call, from any thread."""

Ranges = tuple[tuple[int, int], ...]
"""(offset, length) in bytes."""


@dataclass(frozen=True)
class FetchOptions:
    """`bandwidth_bytes_s` is this call's share, 0 = no limit. `stop` set: end soon, say what is
    done. `fsync` is the driver's matter, not the engine's."""

    bandwidth_bytes_s: int = 0
    moved: Moved = lambda _: None
    stop: threading.Event = field(default_factory=threading.Event)


class Engine(Protocol):
    """One way to copy. An instance serves one source and may be called from several threads."""

    kinds: tuple[SourceKind, ...]
    """Kinds of source it can read."""
    batch_files: int
    """Files it likes to get in one call (1: it has no gain from more)."""

    def __init__(self, source: SourceSpec) -> None: ...

    @classmethod
    def missing(cls) -> str | None:
        """None, or one line: which program or package is missing and how to get it."""

    def problem(self) -> str | None:
        """None, or one line: why this source cannot be used now (asked once, before the copy)."""

    def fetch(self, batch: Batch, room: str, options: FetchOptions) -> Fetched:
        """Bring the files of one batch. Raises nothing: every failure is in the answer."""

    def close(self) -> None:
        """Nothing of it runs any more."""


class RangeEngine(Protocol):
    """What an engine also has when it can mend a file: the driver looks for `fetch_ranges`."""

    def fetch_ranges(
        self, entry: FileEntry, ranges: Ranges, room: str, options: FetchOptions
    ) -> Fetched:
        """Bring these pieces of one file; the rest of it lies at ``room/<path>`` and is right.

        The file there may be shorter than the whole. As :meth:`Engine.fetch` otherwise.
        """


ENGINES: Registry[type[Engine]] = Registry("engine", "slurm_io.staging.stage.engines")
PREFERRED: dict[SourceKind, tuple[str, ...]] = {
    "path": ("copy",),
    "peer": ("rsync",),
    "s3": ("s5cmd", "boto"),
}
"""Engines by kind of source, best first; ``--engine`` overrules."""
