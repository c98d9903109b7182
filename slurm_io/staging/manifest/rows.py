"""Header and files as JSON objects, both ways; every value that comes in is checked.

Keys are the field names of :mod:`slurm_io.staging.manifest.model`; a field that has its default is
left out. Unknown keys are refused: whatever a manifest says must be covered by its signature.

Standard library only: the prolog loads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest import algorithms
from slurm_io.staging.manifest.algorithms import check_digits, is_digest, parse_digest
from slurm_io.staging.manifest.content_id import PATTERN as CONTENT_ID
from slurm_io.staging.manifest.model import SCHEMA, FileEntry, Header, Tokens
from slurm_io.staging.manifest.value_checks import (
    MAX_BYTES,
    Check,
    any_text,
    checked,
    list_of,
    matching,
    one_of,
    or_null,
    text_up_to,
    whole_number,
)

FORMAT = "slurm_io manifest"
MAX_FILES = 50_000_000
MAX_CHUNKS = 8192  # of one file: they must fit on a line of 1 MiB
MAX_LINE_BYTES = 1 << 20
MAX_DEPTH = 8
_PLAIN_KEYS = {"path", "size_bytes", "digest", "ends"}
_SIGNATURE = re.compile(r"ed25519:[0-9a-f]{16}:[0-9a-f]{128}")
_DTYPE = re.compile(r"[<>=|]?[a-z][a-z0-9_]{0,31}")
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> str:
    """The one way to write a value: sorted keys, no spaces, ASCII, whole numbers only."""
    return _CANONICAL.encode(value)


def header_row(header: Header, with_signature: bool = True) -> dict[str, Any]:
    """A header as a JSON object."""
    row: dict[str, Any] = {"format": FORMAT, "schema": header.schema}
    for name in _HEADER:
        value = getattr(header, name, None)
        if value is None or value == () or value == {} or name in ("format", "schema"):
            continue
        row[name] = list(value) if isinstance(value, tuple) else value
    if header.tokens is not None:
        row["tokens"] = {"dtype": header.tokens.dtype}
        if header.tokens.vocabulary is not None:
            row["tokens"]["vocabulary"] = header.tokens.vocabulary
    for name in ("created_at", "creator", "missing_count"):
        if not row.get(name):
            row.pop(name, None)
    if not with_signature:
        row.pop("signature", None)
    return row


def header_of(row: Any) -> Header:
    """The header a JSON object stands for. Raises ManifestError naming the key."""
    if not isinstance(row, dict) or row.get("format") != FORMAT:
        raise ManifestError(f'is no manifest: its first line is not {{"format":"{FORMAT}",...}}')
    if type(row.get("schema")) is not int or row["schema"] != SCHEMA:
        raise ManifestError(
            f"schema {row.get('schema')!a:.40}: this slurm_io reads {SCHEMA}; update slurm_io"
        )
    values = checked(row, _HEADER, ("dataset", "content_id", "file_count"))
    del values["format"]
    values.setdefault("total_bytes", None)
    return Header(**values)


def entry_row(entry: FileEntry) -> dict[str, Any]:
    """A file as a JSON object."""
    row: dict[str, Any] = {"path": entry.path}
    if entry.size_bytes is not None:
        row["size_bytes"] = entry.size_bytes
    for name in ("digest", "ends", "etag", "version_id"):
        value = getattr(entry, name)
        if value is not None:
            row[name] = value
    if entry.chunks:
        row["chunks"] = list(entry.chunks)
    if entry.role != "data":
        row["role"] = entry.role
    if entry.digests:
        row["digests"] = list(entry.digests)
    return row


def entry_of(row: Any) -> FileEntry:
    """The file a JSON object stands for, its path not yet checked. Raises ManifestError."""
    if is_plain(row):
        return FileEntry(row["path"], row["size_bytes"], row["digest"], row["ends"])
    if not isinstance(row, dict):
        raise ManifestError("is not a JSON object")
    values = checked(row, _ENTRY, ("path",))
    values.setdefault("size_bytes", None)
    return FileEntry(**values)


def is_plain(row: Any) -> bool:
    """Whether this is a file like nearly all: path, size and both digests, and all are right.

    A million files are told by this in a fifth of the time that looking at each key takes.
    """
    if type(row) is not dict or row.keys() != _PLAIN_KEYS:
        return False
    size, digest, ends = row["size_bytes"], row["digest"], row["ends"]
    return (
        type(row["path"]) is str
        and type(size) is int
        and 0 <= size <= MAX_BYTES
        and is_digest(digest)
        and (ends is digest or is_digest(ends))
    )


def check_chunks(header: Header, entry: FileEntry) -> None:
    """Raise ManifestError unless an entry's chunks fit the header's chunk size and algorithm."""
    if not entry.chunks:
        return
    if header.chunk_bytes is None or entry.size_bytes is None:
        raise ManifestError("has chunks, but its size or the header's chunk_bytes is missing")
    wanted = -(-entry.size_bytes // header.chunk_bytes)
    if len(entry.chunks) != wanted:
        raise ManifestError(f"has {len(entry.chunks)} chunks where its size makes {wanted}")
    for digits in entry.chunks:
        check_digits(header.algorithm, digits)


class Totals:
    """Counts files and bytes of a stream, and compares them with a header."""

    def __init__(self) -> None:
        self.file_count = 0
        self.total_bytes: int | None = 0

    def add(self, size_bytes: int | None) -> None:
        """Count one file in. The total is None once one size is unknown."""
        self.file_count += 1
        if size_bytes is None or self.total_bytes is None:
            self.total_bytes = None
        else:
            self.total_bytes += size_bytes

    def check(self, header: Header) -> None:
        """Raise ManifestError unless a header says the same."""
        for name in ("file_count", "total_bytes"):
            said, found = getattr(header, name), getattr(self, name)
            if said != found:
                raise ManifestError(f"its header says {name} {said}, its files make {found}")


def totals_of(files: Iterable[FileEntry]) -> Totals:
    """File count and bytes of some files."""
    totals = Totals()
    for entry in files:
        totals.add(entry.size_bytes)
    return totals


def _digest(value: Any) -> str:
    parse_digest(any_text(value))
    return str(value)


def _tokens(value: Any) -> Tokens | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ManifestError("must be an object with dtype and vocabulary")
    return Tokens(**checked(value, _TOKENS, ("dtype",)))


def _layout_row(value: Any) -> dict[str, int]:
    if not isinstance(value, dict) or len(value) > 16:
        raise ManifestError('must hold objects like {"min_size_bytes": 0, "stripe_count": 1}')
    return checked(value, _LAYOUT, ())


def _requires(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ManifestError("must be an object")
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for inner in level
            for item in (inner.values() if isinstance(inner, dict) else inner)
            if isinstance(item, dict | list)
        ]
    if level:
        raise ManifestError(f"is nested deeper than {MAX_DEPTH}")
    for key, check in _REQUIRES.items():
        if key in value:
            check(value[key])
    return value


_LAYOUT: dict[str, Check] = {
    name: whole_number(-1, MAX_BYTES)
    for name in ("min_size_bytes", "max_size_bytes", "stripe_count", "stripe_size_bytes")
}
_TOKENS: dict[str, Check] = {
    "dtype": matching(_DTYPE, "a NumPy dtype"),
    "vocabulary": or_null(whole_number(1, 1 << 40)),
}
_REQUIRES: dict[str, Check] = {
    "free_bytes": whole_number(0, MAX_BYTES),
    "fstypes": list_of(text_up_to(64), 64),
}
_HEADER: dict[str, Check] = {
    "format": one_of(FORMAT),
    "schema": whole_number(SCHEMA, SCHEMA),
    "dataset": text_up_to(256),
    "content_id": matching(CONTENT_ID, "c1- and 32 hex digits"),
    "file_count": whole_number(0, MAX_FILES),
    "total_bytes": or_null(whole_number(0, MAX_BYTES)),
    "algorithm": one_of(*algorithms.ALGORITHMS),
    "chunk_bytes": or_null(whole_number(1, MAX_BYTES)),
    "created_at": text_up_to(64),
    "creator": text_up_to(256),
    "sources": list_of(text_up_to(4096), 64),
    "tokens": _tokens,
    "layout": list_of(_layout_row, 64),
    "requires": _requires,
    "retention_days": or_null(whole_number(0, 1_000_000)),
    "notes": list_of(text_up_to(4096), 200),
    "signature": or_null(matching(_SIGNATURE, "ed25519:KEYID:SIGNATURE")),
    "missing_count": whole_number(0, MAX_FILES),
    "links": or_null(one_of("inside")),
}
_ENTRY: dict[str, Check] = {
    "path": any_text,
    "size_bytes": or_null(whole_number(0, MAX_BYTES)),
    "digest": or_null(_digest),
    "ends": or_null(_digest),
    "chunks": list_of(any_text, MAX_CHUNKS),
    "etag": or_null(text_up_to(1024)),
    "version_id": or_null(text_up_to(1024)),
    "role": one_of("data", "index", "metadata"),
    "digests": list_of(_digest, 32),
}
