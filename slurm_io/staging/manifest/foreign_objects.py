"""Objects of a bucket, collected into files: what listings and inventories have in common."""

from __future__ import annotations

import os
import re
from collections import Counter

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.foreign_entries import EntryList
from slurm_io.staging.manifest.foreign_json import MAX_INT
from slurm_io.staging.manifest.foreign_source import shown
from slurm_io.staging.manifest.model import FileEntry

OLD = "old versions left out"
DELETED = "deleted objects left out"
COLD = "objects in GLACIER or DEEP_ARCHIVE: restore them before staging"
_OUTSIDE = "objects outside --prefix left out"
_MARKERS = "folder markers left out"
_COLD_CLASSES = frozenset({"GLACIER", "DEEP_ARCHIVE"})
_MAX_NAME = 1024
_WHOLE = re.compile(r"[0-9]{1,19}")


class ObjectList:
    """The objects of one bucket. `counts` of what was left out or matters go into the notes."""

    def __init__(self, prefix: str) -> None:
        self.counts: Counter[str] = Counter()
        self._entries = EntryList(prefix)
        self._prefix = prefix
        self._common: str | None = None

    def add(
        self,
        key: str,
        size_bytes: int,
        where: str,
        *,
        etag: str | None = None,
        version_id: str | None = None,
        storage_class: str | None = None,
        digests: tuple[str, ...] = (),
    ) -> None:
        """One current object. Folder markers are left out; an ETag is never taken for an MD5."""
        if not key.startswith(self._prefix):  # a listing is of a whole bucket as a rule
            self.counts[_OUTSIDE] += 1
            return
        if key.endswith("/"):
            if size_bytes:
                raise ManifestError(
                    f"{where}: {shown(key)} ends in / and has {size_bytes} bytes: no file can have "
                    "that name; rename the object"
                )
            self.counts[_MARKERS] += 1
            return
        self.counts[COLD] += storage_class in _COLD_CLASSES
        self._common = key if self._common is None else os.path.commonprefix([self._common, key])
        self._entries.add(
            key,
            where,
            size_bytes=size_bytes,
            etag=_plain((etag or "").strip('"'), f"{where}.ETag"),
            version_id=_plain(version_id or "", f"{where}.VersionId"),
            digests=digests,
        )

    def entries(self, where: str) -> tuple[FileEntry, ...]:
        """All objects as files, in a manifest's order."""
        return self._entries.entries(where)

    def notes(self) -> tuple[str, ...]:
        """What was left out, and which --prefix would make the paths relative."""
        notes = [f"{count} {what}" for what, count in sorted(self.counts.items()) if count]
        folder = (self._common or "").rpartition("/")[0]
        if folder and not self._prefix:
            notes.append(
                f"all keys start with {shown(folder)}/: --prefix {shown(folder)}/ makes paths "
                "relative to it"
            )
        return tuple(notes)


def _plain(value: str, where: str) -> str | None:
    """A name S3 gave, None for none ("null" is the version of an unversioned bucket)."""
    if value in ("", "null"):
        return None
    if len(value) > _MAX_NAME or not value.isascii() or not value.isprintable():
        raise ManifestError(f"{where}: {value!a:.60} is no name that S3 gives")
    return value


def size_of(text: str, where: str) -> int:
    """A size written in digits. Raises ManifestError."""
    if not _WHOLE.fullmatch(text) or int(text) > MAX_INT:
        raise ManifestError(f"{where}: size {text!a:.40} is no number of bytes")
    return int(text)
