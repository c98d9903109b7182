"""What a manifest holds. Pure data, standard library only: the prolog loads it.

Paths are relative to the dataset's folder, in the exact bytes of the file system; bytes that are
not UTF-8 are kept as surrogates (``os.fsdecode``), which JSON writes as ``\\udcXX`` and reads back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from slurm_io.records import dataclass, field

SCHEMA = 1
Role = Literal["data", "index", "metadata"]


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file.

    `digest` is ``ALGORITHM:HEX`` of the whole file (``xxh3-128:…``), None when the source of the
    manifest did not say. `ends` is ``ALGORITHM:HEX`` of the first 64 KiB followed by the last
    64 KiB (of a file not larger than 128 KiB: of all of it once). `chunks` are digests (hex) of
    consecutive pieces of the header's `chunk_bytes`. `etag`/`version_id` pin the object in S3.
    `role`: index and metadata files are always hashed in full (level 3).
    `digests` holds further digests the source named, e.g. ``("md5:…",)``.
    """

    path: str
    size_bytes: int | None
    digest: str | None = None
    ends: str | None = None
    chunks: tuple[str, ...] = ()
    etag: str | None = None
    version_id: str | None = None
    role: Role = "data"
    digests: tuple[str, ...] = ()

    def __init__(
        self,
        path: str,
        size_bytes: int | None,
        digest: str | None = None,
        ends: str | None = None,
        chunks: tuple[str, ...] = (),
        etag: str | None = None,
        version_id: str | None = None,
        role: Role = "data",
        digests: tuple[str, ...] = (),
    ) -> None:
        """Written out: a manifest has millions of these, and this takes half the time."""
        put = object.__setattr__
        put(self, "path", path)
        put(self, "size_bytes", size_bytes)
        put(self, "digest", digest)
        put(self, "ends", ends)
        put(self, "chunks", chunks)
        put(self, "etag", etag)
        put(self, "version_id", version_id)
        put(self, "role", role)
        put(self, "digests", digests)


@dataclass(frozen=True)
class Tokens:
    """What the tokens of a dataset are: NumPy's dtype name and the size of the vocabulary."""

    dtype: str
    vocabulary: int | None = None


@dataclass(frozen=True)
class Header:
    """First line of a manifest. `content_id` names exactly one version (``c1-`` + 32 hex digits).

    `algorithm` is that of new digests; `requires` may hold ``free_bytes`` and ``fstypes``;
    `layout` hints are ``{"min_size_bytes": …, "stripe_count": …, "stripe_size_bytes": …}`` rows.
    `signature` is ``ed25519:KEYID:HEX`` over the header without it (the content id covers files).
    `missing_count`: files of the folder that the builder could not read and left out.
    `links` "inside": some files were symbolic links to files inside the folder, and may be again.
    """

    dataset: str
    content_id: str
    file_count: int
    total_bytes: int | None
    algorithm: str = "xxh3-128"
    chunk_bytes: int | None = None
    created_at: str = ""
    creator: str = ""
    sources: tuple[str, ...] = ()
    tokens: Tokens | None = None
    layout: tuple[dict[str, int], ...] = ()
    requires: dict[str, Any] = field(default_factory=dict)
    retention_days: int | None = None
    notes: tuple[str, ...] = ()
    signature: str | None = None
    missing_count: int = 0
    links: Literal["inside"] | None = None
    schema: int = SCHEMA


@dataclass(frozen=True)
class Manifest:
    """Header and files, the files sorted by their path's bytes (``os.fsencode``)."""

    header: Header
    files: Sequence[FileEntry]
