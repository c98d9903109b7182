"""How large the newest complete checkpoint below a folder is: the best guess for the next one.

A checkpoint is a folder whose name holds a step (``checkpoint-1000``, ``iter_0001000``,
``global_step500``, ``epoch=3``, ``1000``), or the checkpoint files of one folder that were written
together or are shards of one another. Only names, sizes and times are looked at, within a time and
a number; no link is followed.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from typing import NamedTuple

from slurm_io.filesystems.bounded_walk import BoundedWalk

_STEP = re.compile(
    r"(?:.*[^A-Za-z])?(?:checkpoint|ckpt|chkpt|step|steps|iter|iteration|epoch|ep|ba)[-_=]?[0-9]+.*"
    r"|[0-9]{1,12}",
    re.IGNORECASE,
)
_SUFFIXES = frozenset(
    (".pt", ".pth", ".ckpt", ".safetensors", ".distcp", ".bin", ".npz", ".msgpack", ".h5")
)
_UNFINISHED = ("tmp", "incomplete", "partial", "inprogress")
_WORDS = re.compile(r"[^A-Za-z]+")
_DEPTH_MAX = 4
_TOGETHER_S = 120.0
_CANDIDATES_MAX = 4
_INTERRUPTED_BELOW = 0.5


class Checkpoint(NamedTuple):
    """One checkpoint: where, when it was last written to (seconds since the epoch), how large."""

    path: str
    written_s: float
    size_bytes: int
    files: int


class Found(NamedTuple):
    """The newest complete checkpoint, how many there are beside it (itself included), and why the
    search was not whole ("" = it was)."""

    newest: Checkpoint | None
    present: int
    cut: str


class _File(NamedTuple):
    name: str
    size_bytes: int
    written_s: float


def find_newest(folder: str, until_s: float, entries_max: int = 20_000) -> Found:
    """Look below `folder` until ``time.monotonic()`` is `until_s`. Raises OSError when the folder
    itself cannot be listed."""
    search = _Search(until_s, entries_max)
    search.look(folder, 0)
    newest_first = sorted(search.candidates, key=lambda each: each.written_s, reverse=True)
    sized: list[Checkpoint] = []
    for candidate in newest_first[:_CANDIDATES_MAX]:
        checkpoint = candidate if candidate.files else search.sized(candidate)
        if checkpoint is not None and checkpoint.size_bytes:
            sized.append(checkpoint)
        if len(sized) == 2:
            break
    newest = _whole_one(sized)
    return Found(newest, _beside(newest, newest_first), search.cut)


def _whole_one(sized: list[Checkpoint]) -> Checkpoint | None:
    """The newest, unless it is much smaller than the one before: then its save was interrupted."""
    if not sized:
        return None
    newest, before = sized[0], sized[-1]
    interrupted = newest.size_bytes < before.size_bytes * _INTERRUPTED_BELOW
    return before if interrupted else newest


def _beside(newest: Checkpoint | None, candidates: Iterable[Checkpoint]) -> int:
    if newest is None:
        return 0
    parent = os.path.dirname(newest.path)
    return sum(os.path.dirname(each.path) == parent for each in candidates)


class _Search:
    """Candidates of one search; those that are folders get their size only when they matter."""

    def __init__(self, until_s: float, entries_max: int) -> None:
        self.candidates: list[Checkpoint] = []
        self.cut = ""
        self._until_s = until_s
        self._entries_left = entries_max

    def look(self, folder: str, depth: int) -> None:
        """Add the checkpoints of one folder and of those below."""
        files: list[_File] = []
        folders: list[str] = []
        with os.scandir(folder) as listing:
            for entry in listing:
                if self._is_over():
                    break
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif _is_checkpoint_file(entry.name) and entry.is_file(follow_symlinks=False):
                    found = entry.stat(follow_symlinks=False)
                    files.append(_File(entry.name, found.st_size, found.st_mtime))
        together = _written_together(files)
        if together and not _lacks_metadata(folder, together):
            self.candidates.append(_of_files(folder, together))
        for name in folders:
            self._look_into(os.path.join(folder, name), name, depth)

    def sized(self, candidate: Checkpoint) -> Checkpoint | None:
        """The candidate with size and number of files; None when it is not complete."""
        size_bytes = files = 0
        shards = metadata = False
        try:
            walk = BoundedWalk(candidate.path, self._until_s, max(1, self._entries_left))
            for path, entry in walk:
                size_bytes += entry.stat(follow_symlinks=False).st_size
                files += 1
                shards |= path.endswith(".distcp")
                metadata |= path.rpartition("/")[2] == ".metadata"
        except OSError as error:
            self.cut = self.cut or f"a checkpoint cannot be read: {error.strerror}"
            return None
        self._entries_left -= files
        self.cut = self.cut or walk.cut
        if walk.cut or (shards and not metadata):
            return None
        return candidate._replace(size_bytes=size_bytes, files=files)

    def _look_into(self, path: str, name: str, depth: int) -> None:
        if _is_unfinished(name) or self.cut:
            return
        try:
            if _STEP.fullmatch(name):
                written_s = os.stat(path, follow_symlinks=False).st_mtime
                self.candidates.append(Checkpoint(path, written_s, 0, 0))
            elif depth < _DEPTH_MAX and name[0] != ".":
                self.look(path, depth + 1)
        except OSError as error:
            self.cut = self.cut or f"a folder cannot be read: {error.strerror}"

    def _is_over(self) -> bool:
        self._entries_left -= 1
        if self._entries_left <= 0:
            self.cut = "too many entries"
        elif self._entries_left % 64 == 0 and time.monotonic() >= self._until_s:
            self.cut = "no time left"
        return self.cut in ("too many entries", "no time left")


def _is_checkpoint_file(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in _SUFFIXES and not _is_unfinished(name)


def _is_unfinished(name: str) -> bool:
    words = {word.lower() for word in _WORDS.split(name)}
    return not words.isdisjoint(_UNFINISHED)


def _written_together(files: list[_File]) -> list[_File]:
    """Files of one save: written within two minutes of the newest, or shards ("-of-")."""
    newest_s = max((each.written_s for each in files), default=0.0)
    return [
        each for each in files if newest_s - each.written_s <= _TOGETHER_S or "-of-" in each.name
    ]


def _lacks_metadata(folder: str, files: list[_File]) -> bool:
    """A distributed checkpoint is whole once its .metadata is there."""
    shards = any(each.name.endswith(".distcp") for each in files)
    return shards and not os.path.lexists(os.path.join(folder, ".metadata"))


def _of_files(folder: str, files: list[_File]) -> Checkpoint:
    """All in one: one file under its own name, several under their folder's."""
    path = os.path.join(folder, files[0].name) if len(files) == 1 else folder
    return Checkpoint(
        path,
        max(each.written_s for each in files),
        sum(each.size_bytes for each in files),
        len(files),
    )
