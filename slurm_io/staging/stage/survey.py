"""What lies in the target's folder now, against the manifest and what this node has proven.

Changes nothing and reads no data: one lstat a file, one listing a folder.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from slurm_io.staging.beneath import Folder, NotAFile, kind_of_entry
from slurm_io.staging.links import LinksInside
from slurm_io.staging.manifest.paths import decode_path, printable
from slurm_io.staging.stage.debris import is_old_debris
from slurm_io.staging.verify.debris import kind_of_extra
from slurm_io.staging.verify.expected import FromManifest
from slurm_io.staging.verify.l1 import stamp_of
from slurm_io.staging.verify.table import Segment, Stamp
from slurm_io.staging.verify.work import join


@dataclass
class Survey:
    """Files by their number in the manifest's folder order.

    `proven`: with the stamp they had when they were hashed here. `unproven`: right size, content
    not known here. `sized`: right as far as a manifest without their digest can tell. `to_copy`:
    why. `blocked`: cannot get their names because of what `blockers` are. `replaced_bytes`: what
    the present bad versions take, by number. `extra` and `debris` (that may be removed, with its
    bytes) belong to no version.
    """

    proven: dict[int, Stamp] = field(default_factory=dict)
    unproven: list[int] = field(default_factory=list)
    sized: list[int] = field(default_factory=list)
    to_copy: dict[int, str] = field(default_factory=dict)
    blocked: dict[int, str] = field(default_factory=dict)
    blockers: set[bytes] = field(default_factory=set)
    replaced_bytes: dict[int, int] = field(default_factory=dict)
    extra: list[bytes] = field(default_factory=list)
    debris: dict[bytes, int] = field(default_factory=dict)


def nothing_there(expected: FromManifest) -> Survey:
    """Of a folder that does not exist yet."""
    return Survey(to_copy=dict.fromkeys(range(expected.count), "missing"))


class Surveyor:
    """Looks once at an open folder. `known`: stamps of files proven here; `suspects`: numbers of
    files to be hashed whatever their stamps. `path`: how the folder was opened."""

    def __init__(
        self,
        tree: Folder,
        path: str,
        expected: FromManifest,
        known: Mapping[int, Stamp],
        suspects: Container[int],
        debris_age_s: float,
        links: bool,
    ) -> None:
        self._tree = tree
        self._expected = expected
        self._known = known
        self._suspects = suspects
        self._debris_age_s = debris_age_s
        self._links = LinksInside(tree.fd, path) if links else None
        self._names: set[bytes] = set()
        self._found = Survey()

    def look(self) -> Survey:
        """The survey. Raises OSError when the folder itself cannot be read."""
        for segment in self._expected.segments():
            try:
                folder = self._tree.folder_fd(segment.folder)
            except FileNotFoundError:
                self._all_of(segment, "missing", blocker=None)
                continue
            except OSError as error:
                self._all_of(segment, error.strerror or str(error), self._blocker(segment.folder))
                continue
            for position in range(len(segment.names)):
                self._one(segment, position, folder)
            self._names.update(segment.names, segment.subfolders)
            if segment.last:
                self._others(segment.folder, folder)
                self._names = set()
        if self._links is not None:
            self._links.close()
        return self._found

    def _all_of(self, segment: Segment, why: str, blocker: bytes | None) -> None:
        for index in range(segment.first, segment.first + len(segment.names)):
            if blocker is None:
                self._found.to_copy[index] = why
            else:
                self._block(index, blocker, "is no folder")

    def _block(self, index: int, blocker: bytes, what: str) -> None:
        where = printable(decode_path(blocker))
        self._found.blocked[index] = f"{where} {what}: remove it, or say --delete-extra"
        self._found.blockers.add(blocker)

    def _blocker(self, folder: bytes) -> bytes | None:
        """The first part of a path that is no folder."""
        parts = folder.split(b"/")
        for depth in range(1, len(parts) + 1):
            raw = b"/".join(parts[:depth])
            try:
                if not stat.S_ISDIR(self._tree.stat(raw).st_mode):
                    return raw
            except OSError:
                return raw
        return None

    def _one(self, segment: Segment, position: int, folder: int) -> None:
        index, raw = segment.first + position, join(segment.folder, segment.names[position])
        try:
            found = self._stat(segment.names[position], folder, raw)
        except FileNotFoundError:
            self._found.to_copy[index] = "missing"
            return
        except OSError as error:
            self._found.to_copy[index] = error.strerror or str(error)
            return
        if stat.S_ISDIR(found.st_mode):
            self._block(index, raw, "is a folder")
        elif not stat.S_ISREG(found.st_mode):
            self._found.to_copy[index] = f"is {kind_of_entry(found.st_mode)}"
        else:
            self._regular(index, segment.sizes[position], found)

    def _stat(self, name: bytes, folder: int, raw: bytes) -> os.stat_result:
        found = os.lstat(name, dir_fd=folder)
        if self._links is not None and stat.S_ISLNK(found.st_mode):
            try:
                return self._links.look(raw)[1]
            except NotAFile:
                return found
        return found

    def _regular(self, index: int, size: int | None, found: os.stat_result) -> None:
        stamp = stamp_of(found)
        if size is not None and found.st_size != size:
            self._found.to_copy[index] = f"{found.st_size} bytes instead of {size}"
            self._found.replaced_bytes[index] = found.st_blocks * 512
        elif index not in self._suspects and self._known.get(index) == stamp:
            self._found.proven[index] = stamp
        elif self._expected.files[index].digest is None:
            self._found.sized.append(index)
        else:
            self._found.unproven.append(index)

    def _others(self, folder: bytes, descriptor: int) -> None:
        now_s = time.time()
        for name in map(os.fsencode, os.listdir(descriptor)):
            if name in self._names:
                continue
            raw = join(folder, name)
            try:
                facts = os.lstat(name, dir_fd=descriptor)
            except OSError:
                continue  # gone again
            if is_old_debris(raw, facts, self._names, now_s - self._debris_age_s):
                self._found.debris[raw] = facts.st_blocks * 512
            elif kind_of_extra(raw, stat.S_ISDIR(facts.st_mode), self._names) == "extra":
                self._found.extra.append(raw)
