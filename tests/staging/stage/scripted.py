"""The copy engine with a script of faults: what a bad source does, on call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage.engines.base import ENGINES, FetchOptions, Ranges
from slurm_io.staging.stage.engines.copy import Copy
from slurm_io.staging.stage.model import Batch, Failure, Fetched, SourceSpec

Fault = Callable[[str, Path], Failure | None]
"""(path, file in the room) -> what the engine says of it, None = done. May change the file."""
NAME = "scripted"


class Scripted(Copy):
    """Copies, then lets the script of its source have its way with each file, once a call."""

    batch_files = 4
    scripts: ClassVar[dict[str, Callable[[str, int], Fault | None]]] = {}
    """Source's folder -> (path, how often it was asked for before) -> fault."""
    brought: ClassVar[list[tuple[str, str]]] = []
    """(source's folder, path) of all files asked for, in order."""
    ranges: ClassVar[list[tuple[str, Ranges]]] = []
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, source: SourceSpec) -> None:
        super().__init__(source)
        self.where = source.where

    def fetch(self, batch: Batch, room: str, options: FetchOptions) -> Fetched:
        """As the script has it."""
        answer = super().fetch(batch, room, options)
        return self._changed(answer, [entry.path for entry in batch.files], room)

    def fetch_ranges(
        self, entry: FileEntry, ranges: Ranges, room: str, options: FetchOptions
    ) -> Fetched:
        """As the script has it."""
        self.ranges.append((entry.path, ranges))
        answer = super().fetch_ranges(entry, ranges, room, options)
        return self._changed(answer, [entry.path], room)

    def _changed(self, answer: Fetched, paths: list[str], room: str) -> Fetched:
        failures = list(answer.failures)
        script = self.scripts.get(self.where)
        for path in paths:
            with self._lock:
                before = self.brought.count((self.where, path))
                self.brought.append((self.where, path))
            fault = script(path, before) if script is not None else None
            failure = fault(path, Path(room) / path) if fault is not None else None
            if failure is not None:
                failures.append(failure)
        failed = {failure.path for failure in failures}
        done = tuple(path for path in answer.done if path not in failed)
        return Fetched(done, tuple(failures), answer.bytes_moved)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> type[Scripted]:
    """The engine ``scripted``, with clean slates."""
    ENGINES.discover()
    monkeypatch.setitem(ENGINES._things, NAME, Scripted)
    for slate in (Scripted.scripts, Scripted.brought, Scripted.ranges):
        slate.clear()
    return Scripted
