"""Whole hashes of some files of a manifest below a folder, read from the medium."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from slurm_io.filesystems.kinds import Kind
from slurm_io.staging.beneath import Folder
from slurm_io.staging.links import LinksInside
from slurm_io.staging.manifest.model import FileEntry, Header
from slurm_io.staging.verify.expected import FromManifest
from slurm_io.staging.verify.hashing import HashPool
from slurm_io.staging.verify.model import BadFile, Deadline
from slurm_io.staging.verify.work import Findings, Options, Progress, Work

LEVEL = 4


class UntilStopped(Deadline):
    """A deadline that comes when somebody says stop."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__(None)
        self._stop = stop

    def over(self) -> bool:
        """Whether somebody said stop."""
        return self._stop.is_set()


@dataclass
class Proven:
    """`right`: paths whose whole content is the manifest's. `bad`: by path. Files in neither have
    no digest, or the time was over."""

    right: set[str] = field(default_factory=set)
    bad: dict[str, BadFile] = field(default_factory=dict)
    bytes_from_cache: int = 0

    def blame(self, bad: BadFile) -> None:
        """Enter a bad file; what was found first counts."""
        self.bad.setdefault(bad.path, bad)


def prove(
    tree: Folder,
    header: Header,
    entries: Sequence[FileEntry],
    stop: threading.Event,
    workers: int = 1,
    kind: Kind = "other",
    progress: Progress | None = None,
    links_of: str | None = None,
) -> Proven:
    """Hash files below an open folder. `links_of`: its path, where links inside stand for files."""
    expected = FromManifest(header, entries)
    found = Proven()
    findings = Findings(0, found.blame)
    with contextlib.ExitStack() as opened:
        own = opened.enter_context(Folder(os.dup(tree.fd)))
        links = None
        if links_of is not None:
            links = opened.enter_context(LinksInside(tree.fd, links_of))
        work = Work(
            path="",
            tree=own,
            kind=kind,
            expected=expected,
            deadline=UntilStopped(stop),
            options=Options(workers=workers, progress=progress),
            findings=findings,
            links=links,
        )
        total = sum(entry.size_bytes or 0 for entry in entries)
        finished = HashPool(work, LEVEL, total).run(expected.rows(range(expected.count)))
    findings.close()
    paths = {expected.files[index].path for index in finished}
    found.right = paths - found.bad.keys()
    found.bytes_from_cache = work.bytes_from_cache
    return found
