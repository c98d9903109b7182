"""What the levels of one verify share: the tree, what is expected, what was found, the clock."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from slurm_io.filesystems.kinds import Kind
from slurm_io.records import dataclass, field
from slurm_io.staging.beneath import Folder, NotAFile, open_regular
from slurm_io.staging.buffers import HUGE_PAGE_BYTES
from slurm_io.staging.manifest.paths import decode_path
from slurm_io.staging.verify.expected import Expected
from slurm_io.staging.verify.model import HARMLESS, BadFile, Deadline, Why
from slurm_io.staging.verify.sampling import Draw, draw

if TYPE_CHECKING:
    from slurm_io.staging.links import LinksInside
    from slurm_io.staging.verify.journal import Journal
    from slurm_io.staging.verify.proof import Proof

OPEN: frozenset[Why] = frozenset({"changed", "touched", "suspect", "known bad"})
"""Reasons that a full hash can clear."""
Progress = Callable[[int, int, int], None]
"""Called as (level, done, of all): files at levels 1 to 3, bytes at level 4."""
LISTED_MAX = 1000


@dataclass(frozen=True)
class Options:
    """How a verify goes about it; the defaults suit a prolog.

    `probe_files`: at most so many files are probed at level 2, each at both ends and at
    `random_probes` places. `sample_share`: part of the files that one level 3 hashes, from file
    number `cursor` on (None: from anywhere). `extra_is_fine`: files nobody expects are listed, and
    change no answer. `ignore`: relative paths of which nothing is said (the manifest itself).
    `workers`: threads that read and hash, 0 = as many as CPUs, at least 4, or 8 for small files.
    """

    probe_files: int = 2400
    random_probes: int = 1
    sample_share: float = 0.05
    cursor: int | None = None
    workers: int = 0
    block_bytes: int = HUGE_PAGE_BYTES
    extra_is_fine: bool = False
    ignore: frozenset[bytes] = frozenset()
    listed_max: int = LISTED_MAX
    on_bad: Callable[[BadFile], None] | None = None
    progress: Progress | None = None
    pick: Draw = draw


class Findings:
    """The bad files: all counted, the first ones listed.

    `on_bad` gets every one, but those a full hash may clear (`open`) only at the end.
    """

    def __init__(self, listed_max: int, on_bad: Callable[[BadFile], None] | None) -> None:
        self._listed_max = listed_max
        self._on_bad = on_bad
        self._listed: list[BadFile] = []
        self._seen: set[int] = set()
        self.counts: Counter[str] = Counter()
        self.open: dict[int, BadFile] = {}
        self.debris_bytes = 0

    def add(self, bad: BadFile, index: int | None = None) -> None:
        """Count one; of a file (`index`) only the first counts, save that proof beats suspicion."""
        if index is not None:
            if index in self._seen:
                return
            if bad.why in OPEN:
                self.open.setdefault(index, bad)
                return
            self.open.pop(index, None)
            self._seen.add(index)
        self._put(bad)

    def clear(self, index: int) -> None:
        """Its whole content was proven: a changed time stamp means nothing."""
        self.open.pop(index, None)

    def is_bad(self, index: int) -> bool:
        """Whether something was found on a file."""
        return index in self._seen

    def close(self) -> tuple[BadFile, ...]:
        """All that stays; the listed ones."""
        for bad in self.open.values():
            self._put(bad)
        self.open = {}
        return tuple(self._listed)

    def _put(self, bad: BadFile) -> None:
        self.counts[bad.why] += 1
        if len(self._listed) < self._listed_max:
            self._listed.append(bad)
        if self._on_bad is not None:
            self._on_bad(bad)

    @property
    def failed(self) -> bool:
        """Whether anything found so far makes the copy FAIL."""
        changed = any(bad.why not in HARMLESS for bad in self.open.values())
        return changed or any(why not in HARMLESS for why in self.counts)


@dataclass
class Work:
    """One verify under way. `links`: None where no link may stand for a file."""

    path: str
    tree: Folder
    kind: Kind
    expected: Expected
    deadline: Deadline
    options: Options
    findings: Findings
    proof: Proof | None = None
    journal: Journal | None = None
    links: LinksInside | None = None
    notes: list[str] = field(default_factory=list)
    files_stated: int = 0
    files_probed: int = 0
    files_hashed: int = 0
    bytes_read: int = 0
    bytes_from_cache: int = 0
    next_cursor: int | None = None

    def bad(
        self,
        path: bytes,
        why: Why,
        level: int,
        detail: str = "",
        index: int | None = None,
        ranges: tuple[tuple[int, int], ...] = (),
    ) -> None:
        """Report one bad file; its proof, if one is kept, is void."""
        self.findings.add(BadFile(decode_path(path), why, level, detail, ranges), index)
        if self.proof is not None and index is not None and why not in ("changed", *HARMLESS):
            self.proof.void(index)

    def open(self, path: bytes) -> tuple[int, os.stat_result]:
        """A file as it is to be read, and its stat. Raises NotAFile, OSError."""
        folder, _, name = path.rpartition(b"/")
        try:
            return open_regular(self.tree.folder_fd(folder), name)
        except NotAFile:
            if self.links is None or not self.is_link(path):
                raise
        return self.links.open(path)

    def is_link(self, path: bytes) -> bool:
        """Whether a symbolic link stands there. Raises OSError."""
        return stat.S_ISLNK(self.tree.stat(path).st_mode)

    def note(self, text: str) -> None:
        """Say what was not looked at, once."""
        if text not in self.notes:
            self.notes.append(text)

    def progress(self, level: int, done: int, of_all: int) -> None:
        """Tell whoever draws the bar."""
        if self.options.progress is not None:
            self.options.progress(level, done, of_all)


def join(folder: bytes, name: bytes) -> bytes:
    """Path of a name in a folder relative to the root (b"")."""
    return folder + b"/" + name if folder else name
