"""How two manifests differ: added, removed, changed and renamed files, and their headers' facts.

A renamed file is one removed and one added of the same size and digest. Two entries whose digests
cannot be compared (another algorithm, or none) and whose sizes are equal are *not comparable*:
neither equal nor changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from slurm_io.staging.manifest.model import FileEntry, Header, Manifest
from slurm_io.staging.manifest.paths import encode_path, printable
from slurm_io.staging.manifest.rows import header_row

# Two manifests of the same files differ in these whenever they are built.
_OF_THE_BUILD = frozenset({"created_at", "creator", "notes", "signature"})
_OF_THE_FILES = frozenset({"content_id", "file_count", "total_bytes", "schema"})
Verdict = Literal["same", "changed", "not comparable"]


@dataclass(frozen=True)
class Change:
    """One path in both manifests with other contents; `reason` says in what."""

    path: str
    reason: str


@dataclass(frozen=True)
class Difference:
    """What it takes to get from the old manifest to the new one.

    `header`: key -> (old, new). `same_count`: files equal in both.
    """

    old: Header
    new: Header
    added: tuple[FileEntry, ...]
    removed: tuple[FileEntry, ...]
    renamed: tuple[tuple[str, str], ...]
    changed: tuple[Change, ...]
    not_comparable: tuple[str, ...]
    header: dict[str, tuple[Any, Any]]
    same_count: int

    @property
    def is_none(self) -> bool:
        """Whether both name the same dataset with the same files (time of building aside)."""
        files = self.added or self.removed or self.renamed or self.changed or self.not_comparable
        return not files and not (self.header.keys() - _OF_THE_BUILD)

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "equal": self.is_none,
            "old_content_id": self.old.content_id,
            "new_content_id": self.new.content_id,
            "same_count": self.same_count,
            "added": [{"path": e.path, "size_bytes": e.size_bytes} for e in self.added],
            "removed": [{"path": e.path, "size_bytes": e.size_bytes} for e in self.removed],
            "renamed": [{"from": old, "to": new} for old, new in self.renamed],
            "changed": [{"path": each.path, "reason": each.reason} for each in self.changed],
            "not_comparable": list(self.not_comparable),
            "header": {key: {"old": old, "new": new} for key, (old, new) in self.header.items()},
        }

    def lines(self) -> Iterator[str]:
        """For people: one line a difference, a sum at the end."""
        if self.old.content_id != self.new.content_id:
            yield f"content id  {self.old.content_id} -> {self.new.content_id}"
        for key, (old, new) in self.header.items():
            yield f"header      {key}: {old!a:.200} -> {new!a:.200}"
        for entry in self.added:
            yield f"added       {printable(entry.path)}"
        for entry in self.removed:
            yield f"removed     {printable(entry.path)}"
        for old_path, new_path in self.renamed:
            yield f"renamed     {printable(old_path)} -> {printable(new_path)}"
        for each in self.changed:
            yield f"changed     {printable(each.path)}: {each.reason}"
        for path in self.not_comparable:
            yield f"no answer   {printable(path)}: same size, no digest in common"
        yield (
            f"{len(self.added)} added, {len(self.removed)} removed, {len(self.renamed)} renamed, "
            f"{len(self.changed)} changed, {len(self.not_comparable)} not comparable, "
            f"{self.same_count} the same"
        )


def compare(old: Manifest, new: Manifest) -> Difference:
    """Compare two manifests."""
    added: list[FileEntry] = []
    removed: list[FileEntry] = []
    changed: list[Change] = []
    unclear: list[str] = []
    same = 0
    for one, other in _pairs(old.files, new.files):
        if one is None or other is None:
            (removed if one is not None else added).append(one or other)  # type: ignore[arg-type]
            continue
        verdict, reason = _judge(one, other)
        if verdict == "same":
            same += 1
        elif verdict == "changed":
            changed.append(Change(one.path, reason))
        else:
            unclear.append(one.path)
    renamed = _renamed(removed, added)
    gone = {pair[0] for pair in renamed}
    come = {pair[1] for pair in renamed}
    return Difference(
        old=old.header,
        new=new.header,
        added=tuple(entry for entry in added if entry.path not in come),
        removed=tuple(entry for entry in removed if entry.path not in gone),
        renamed=tuple(renamed),
        changed=tuple(changed),
        not_comparable=tuple(unclear),
        header=_header(old.header, new.header),
        same_count=same,
    )


def digests_of(entry: FileEntry) -> dict[str, str]:
    """Algorithm -> hex digits of all whole-file digests of an entry."""
    known = (*([entry.digest] if entry.digest else []), *entry.digests)
    return {algorithm: digits for algorithm, _, digits in (text.partition(":") for text in known)}


def _pairs(
    old: Sequence[FileEntry], new: Sequence[FileEntry]
) -> Iterator[tuple[FileEntry | None, FileEntry | None]]:
    """Both lists (in ascending order) side by side, None where one has no such path."""
    left, right = 0, 0
    while left < len(old) or right < len(new):
        one = encode_path(old[left].path) if left < len(old) else None
        other = encode_path(new[right].path) if right < len(new) else None
        if one == other:
            yield old[left], new[right]
            left, right = left + 1, right + 1
        elif other is None or (one is not None and one < other):
            yield old[left], None
            left += 1
        else:
            yield None, new[right]
            right += 1


def _judge(old: FileEntry, new: FileEntry) -> tuple[Verdict, str]:
    if None not in (old.size_bytes, new.size_bytes) and old.size_bytes != new.size_bytes:
        return "changed", f"size {old.size_bytes} -> {new.size_bytes} bytes"
    mine, theirs = digests_of(old), digests_of(new)
    common = mine.keys() & theirs.keys()
    for algorithm in sorted(common):
        if mine[algorithm] != theirs[algorithm]:
            return "changed", f"same size, other {algorithm} digest"
    if common or not (mine or theirs) or (old.etag is not None and old.etag == new.etag):
        return "same", ""  # without any digest both say the same: a path and its size
    return "not comparable", ""


def _renamed(removed: Sequence[FileEntry], added: Sequence[FileEntry]) -> list[tuple[str, str]]:
    """Pairs of the same size and digest, each file used once, empty files never."""
    waiting: dict[tuple[int | None, str], list[str]] = {}
    for entry in reversed(removed):
        if entry.digest and entry.size_bytes:
            waiting.setdefault((entry.size_bytes, entry.digest), []).append(entry.path)
    pairs = []
    for entry in added:
        if entry.digest and (old := waiting.get((entry.size_bytes, entry.digest))):
            pairs.append((old.pop(), entry.path))
    return pairs


def _header(old: Header, new: Header) -> dict[str, tuple[Any, Any]]:
    mine, theirs = header_row(old), header_row(new)
    return {
        each.name: (mine.get(each.name), theirs.get(each.name))
        for each in fields(Header)
        if each.name not in _OF_THE_FILES and mine.get(each.name) != theirs.get(each.name)
    }
