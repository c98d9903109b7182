"""Every file below a dataset's folder: by descriptors, no symbolic link followed, no recursion.

What cannot be part of a manifest (links, pipes, devices, unreadable folders, paths no program can
open) is a problem with its reason, never skipped in silence.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.beneath import Folder
from slurm_io.staging.manifest.exclude import Exclusions
from slurm_io.staging.manifest.hashing import Identity
from slurm_io.staging.manifest.paths import checked_path, decode_path

FollowLinks = Literal["refuse", "inside"]
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


@dataclass(frozen=True, slots=True)
class Found:
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
        self.files.sort(key=lambda found: found.raw_path)
        self.problems.sort()


class Walk:
    """Lists one folder. `links` "inside": links to regular files below the same root count as
    files; links to folders never do, because a tree of them can be endless."""

    def __init__(self, root: Folder, exclusions: Exclusions, links: FollowLinks = "refuse") -> None:
        self._root = root
        self._exclusions = exclusions
        self._links = links
        self._listing = Listing()
        self._todo: list[bytes] = []

    def run(self, on_files: Callable[[int], None] | None = None) -> Listing:
        """Every file; `on_files` is told how many were found so far, once a folder."""
        self._todo = [b""]
        while self._todo:
            self._scan(self._todo.pop())
            if on_files:
                on_files(len(self._listing.files))
        self._listing.sort()
        return self._listing

    def _scan(self, folder: bytes) -> None:
        try:
            # Names by themselves: their encoding is the locale's, which may not be ours.
            with os.scandir(self._root.folder_fd(folder)) as entries:
                found = [(os.fsencode(entry.name), entry) for entry in entries]
                names = {name for name, _ in found}
                for name, entry in found:
                    self._look(folder + b"/" + name if folder else name, entry, names)
        except OSError as error:
            if not folder:
                raise
            self._problem(folder, f"folder cannot be read ({error.strerror})")

    def _look(self, raw: bytes, entry: os.DirEntry[str], names: set[bytes]) -> None:
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            reason = self._exclusions.reason(raw, is_folder, names)
            if reason is not None:
                self._leave_out(reason)
                return
            checked_path(decode_path(raw))
            if is_folder:
                self._todo.append(raw)
                return
            self._add(raw, entry.stat(follow_symlinks=False))
        except ManifestError as error:
            self._problem(raw, str(error))
        except OSError as error:
            self._problem(raw, f"cannot be read ({error.strerror})")

    def _leave_out(self, reason: str) -> None:
        if reason != "own":
            self._listing.left_out[reason] = self._listing.left_out.get(reason, 0) + 1

    def _add(self, raw: bytes, found: os.stat_result) -> None:
        if stat.S_ISREG(found.st_mode):
            self._listing.files.append(Found(raw, Identity.of(found)))
        elif stat.S_ISLNK(found.st_mode):
            self._add_link(raw)
        else:
            kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no regular file")
            self._problem(raw, f"is {kind}: remove or --exclude it")

    def _add_link(self, raw: bytes) -> None:
        if self._links == "refuse":
            self._problem(raw, "is a symbolic link: see --follow-links, or --exclude it")
            return
        target = self._resolve(raw)
        if target is None:
            self._problem(raw, "is a symbolic link that leads out of the folder or nowhere")
            return
        found = self._root.stat(target)
        if stat.S_ISREG(found.st_mode):
            self._listing.files.append(Found(raw, Identity.of(found), target))
        else:
            self._problem(raw, "is a symbolic link to something that is no regular file")

    def _resolve(self, raw: bytes) -> bytes | None:
        """The link-free path below the root that a link leads to.

        Only a proposal: whoever opens it follows no link, so a swap in between leads nowhere.
        """
        root = os.path.realpath(f"/proc/self/fd/{self._root.fd}".encode())
        try:
            real = os.path.realpath(os.path.join(root, raw), strict=True)
        except (OSError, ValueError):
            return None
        return real[len(root) + 1 :] if real.startswith(root.rstrip(b"/") + b"/") else None

    def _problem(self, raw: bytes, reason: str) -> None:
        self._listing.problems.append(Problem(decode_path(raw), reason))
