"""Which entries of a folder are the newest saves of the series that the job wrote."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from slurm_io.staging.beneath import Folder
from slurm_io.staging.checkpoints.names import plain, shape, step_of

MOST_LISTED = 4096
MOST_FILES = 64  # of one save: a file a rank


@dataclass
class Candidate:
    """Entries that may be one save: a folder, a file, or the files of one step.

    `named`: what the hook saw of it. `newest_ns`: latest of its modification and its events.
    """

    raws: list[bytes]
    is_folder: bool
    newest_ns: int = 0
    named: list[dict[str, Any]] = field(default_factory=list)

    @property
    def label(self) -> bytes:
        """Its name; of several files their common shape, with * for numbers."""
        if len(self.raws) == 1:
            return self.raws[0]
        return shape(os.fsdecode(self.raws[0])).replace("#", "*").encode("utf-8", "surrogateescape")


def list_names(folder: Folder) -> list[bytes]:
    """At most :data:`MOST_LISTED` of them. Raises OSError."""
    with os.scandir(folder.fd) as entries:
        return sorted(os.fsencode(one.name) for one in islice(entries, MOST_LISTED))


def candidates(
    folder: Folder, path: str, listed: Sequence[bytes], named: Sequence[dict[str, Any]]
) -> list[Candidate]:
    """The newest first. Without `named` every entry counts, else those of the same shape as one
    that was named; all of them where nothing of that shape is there (a save renamed since)."""
    by_entry: dict[str, list[dict[str, Any]]] = {}
    for one in named:
        by_entry.setdefault(plain(_entry_of(one["path"], path)), []).append(one)
    shapes = {shape(name) for name in by_entry}
    there = {*listed, *(name.encode("utf-8", "surrogateescape") for name in by_entry)}
    mine = [raw for raw in sorted(there) if shape(os.fsdecode(raw)) in shapes]
    found = _group(folder, mine, by_entry) or _group(folder, sorted(there), by_entry)
    return sorted(found, key=lambda one: (-one.newest_ns, one.label))


def _entry_of(path: str, folder: str) -> str:
    """First name of `path` below `folder`."""
    return os.path.normpath(path)[len(folder.rstrip("/")) + 1 :].partition("/")[0]


def _group(
    folder: Folder, raws: Sequence[bytes], by_entry: dict[str, list[dict[str, Any]]]
) -> list[Candidate]:
    groups: dict[object, Candidate] = {}
    for raw in raws:
        try:
            facts = folder.stat(raw)
        except OSError:
            continue
        is_folder = stat.S_ISDIR(facts.st_mode)
        if not is_folder and not stat.S_ISREG(facts.st_mode):
            continue
        name = os.fsdecode(raw)
        key = raw if is_folder else _key(name)
        one = groups.setdefault(key, Candidate([], is_folder))
        if len(one.raws) < MOST_FILES:
            one.raws.append(raw)
        one.named += by_entry.get(plain(name), [])
        seen_ns = max((each["seen_ns"] for each in one.named), default=0)
        one.newest_ns = max(one.newest_ns, facts.st_mtime_ns, seen_ns)
    return list(groups.values())


def _key(name: str) -> object:
    """Files of one step are one save; without a step, files that differ in numbers only are."""
    step = step_of(name, is_file=True)
    return ("step", step) if step is not None else ("shape", shape(name))
