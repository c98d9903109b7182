"""Every file below a dataset's folder: by descriptors, no symbolic link followed, no recursion.

What cannot be part of a manifest (links, pipes, devices, unreadable folders, paths no program can
open) is a problem with its reason, never skipped in silence.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Literal, NamedTuple

from slurm_io.staging.beneath import Folder, NotAFile
from slurm_io.staging.links import LinksInside
from slurm_io.staging.manifest.exclude import Exclusions
from slurm_io.staging.manifest.hashing import Identity
from slurm_io.staging.manifest.paths import decode_path, fault_of, printable

FollowLinks = Literal["refuse", "inside"]
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


class Found(NamedTuple):
    """One file. `target`: where a followed link leads, below the same root."""

    raw_path: bytes
    identity: Identity
    target: bytes | None = None


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Why one path is not in the manifest."""

    path: str
    reason: str


@dataclass
class Listing:
    """What a walk found; `left_out` counts paths by the rule that left them out."""

    files: list[Found] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)

    def sort(self) -> None:
        """Bring everything into the order of the paths' bytes."""
        self.files.sort(key=itemgetter(0))
        self.problems.sort()


class Walk:
    """Lists one folder. `links` "inside": links to regular files below the same root count as
    files; links to folders never do, because a tree of them can be endless."""

    def __init__(
        self,
        root: Folder,
        exclusions: Exclusions,
        links: FollowLinks = "refuse",
        path: str = "",
    ) -> None:
        """`path`: by which the folder was opened, where absolute links may begin with it."""
        self._root = root
        self._path = path
        self._exclusions = exclusions
        self._links = links
        self._listing = Listing()
        self._known: dict[bytes, Identity] = {}
        self._known_at_first = 0
        self._todo: list[bytes] = []
        self._found_links: list[bytes] = []

    def run(
        self,
        on_files: Callable[[int], None] | None = None,
        known: dict[bytes, Identity] | None = None,
    ) -> Listing:
        """Every file; `on_files` is told how many were found so far, once a folder.

        `known`: files of an earlier look. One that is still the same is taken out of it instead of
        being listed; what is left in the end has changed or gone.
        """
        self._known = {} if known is None else known
        self._known_at_first = len(self._known)
        self._todo = [b""]
        while self._todo:
            self._scan(self._todo.pop())
            if on_files:
                on_files(len(self._listing.files) + self._known_at_first - len(self._known))
        self._add_links()
        self._listing.sort()
        return self._listing

    def _scan(self, folder: bytes) -> None:
        try:
            # Names by themselves: their encoding is the locale's, which may not be ours.
            with os.scandir(self._root.folder_fd(folder)) as entries:
                found = [(os.fsencode(entry.name), entry) for entry in entries]
                names = {name for name, _ in found}
                prefix = folder + b"/" if folder else b""
                for name, entry in found:
                    raw = prefix + name
                    if raw not in self._known or not self._is_unchanged(raw, entry):
                        self._look(raw, entry, names)
        except OSError as error:
            if not folder:
                raise
            self._problem(folder, f"folder cannot be read ({error.strerror})")

    def _is_unchanged(self, raw: bytes, entry: os.DirEntry[str]) -> bool:
        """Whether a known file is still the same; then it is known no more."""
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            return False
        if not self._known[raw].holds(found):
            return False
        del self._known[raw]
        return True

    def _look(self, raw: bytes, entry: os.DirEntry[str], names: set[bytes]) -> None:
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            reason = self._exclusions.reason(raw, is_folder, names)
            if reason is not None:
                self._leave_out(reason)
                return
            fault = fault_of(raw)
            if fault is not None:
                self._problem(raw, f"path {printable(decode_path(raw))} {fault}")
            elif is_folder:
                self._todo.append(raw)
            else:
                self._add(raw, entry.stat(follow_symlinks=False))
        except OSError as error:
            self._problem(raw, f"cannot be read ({error.strerror})")

    def _leave_out(self, reason: str) -> None:
        if reason != "own":
            self._listing.left_out[reason] = self._listing.left_out.get(reason, 0) + 1

    def _add(self, raw: bytes, found: os.stat_result) -> None:
        if stat.S_ISREG(found.st_mode):
            self._listing.files.append(Found(raw, Identity.of(found)))
        elif stat.S_ISLNK(found.st_mode):
            self._found_links.append(raw)
        else:
            kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no regular file")
            self._problem(raw, f"is {kind}: remove or --exclude it")

    def _add_links(self) -> None:
        if self._links == "refuse":
            for raw in self._found_links:
                self._problem(raw, "is a symbolic link: see --follow-links, or --exclude it")
        elif self._found_links:
            with LinksInside(self._root.fd, self._path) as links:
                for raw in self._found_links:
                    self._add_link(raw, links)

    def _add_link(self, raw: bytes, links: LinksInside) -> None:
        """Only a proposal: whoever opens the target follows no link, so a swap leads nowhere."""
        try:
            target, found = links.look(raw)
        except NotAFile as error:
            self._problem(raw, f"is {error}")
        except OSError as error:
            self._problem(raw, f"cannot be read ({error.strerror})")
        else:
            self._listing.files.append(Found(raw, Identity.of(found), target))

    def _problem(self, raw: bytes, reason: str) -> None:
        self._listing.problems.append(Problem(decode_path(raw), reason))
