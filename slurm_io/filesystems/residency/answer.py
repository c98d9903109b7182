"""What is known of the residency of many files at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from slurm_io.filesystems.residency.base import State
from slurm_io.model import CheckAnswer

LISTED_MAX = 100


class FileState(NamedTuple):
    """One file that is not, or perhaps not, on the fast tier. `path` is relative to the root."""

    path: str
    state: State
    size_bytes: int
    missing_bytes: int
    source: str
    reason: str = ""


class ResidencyAnswer(NamedTuple):
    """Residency of a list of files.

    `counts` has every state (resident, released, partial, suspect, unknown); together with
    `not_asked` (the deadline came first) they are all files. `listed` holds the first files (100
    unless more were asked for) that are released, partial or suspect, in that order.
    `missing_bytes` are those of released and partial files, `suspect_bytes` the sizes of suspects.
    `source` names who told (the one that told most files), `sources` how many files each told.
    `reason` says why some are unknown.
    `commands` would bring the files back; they are for a person to run.
    """

    counts: Mapping[State, int]
    missing_bytes: int
    suspect_bytes: int
    listed: tuple[FileState, ...]
    source: str
    sources: Mapping[str, int]
    reason: str
    not_asked: int
    commands: tuple[str, ...] = ()

    @property
    def not_resident(self) -> tuple[str, ...]:
        """Paths (relative, those of `listed`) of files that are released or partly released."""
        return tuple(each.path for each in self.listed if each.state in ("released", "partial"))

    @property
    def answer(self) -> CheckAnswer:
        """FAIL: a first read would block; DEGRADED: partly away, or it looks so; UNKNOWN: not all
        could be told; OK: a source that knows said so of every file."""
        if self.counts["released"]:
            return "FAIL"
        if self.counts["partial"] or self.counts["suspect"]:
            return "DEGRADED"
        if self.counts["unknown"] or self.not_asked or not self.counts["resident"]:
            return "UNKNOWN"
        return "OK"
