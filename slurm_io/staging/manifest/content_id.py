r"""The name of exactly one version of a dataset: ``c1-`` and 32 hex digits.

BLAKE2b with a 16-byte digest over one record a file, in ascending order of the path's bytes::

    PATH \0 SIZE \0 DIGEST \n

PATH the exact bytes, SIZE in decimal digits, DIGEST as the manifest writes it
(``xxh3-128:0f…``); a size or digest the manifest does not know is empty. No field can hold the
byte that ends it, so two different lists never give the same records.

BLAKE2b, because ``hashlib`` has it in every Python: a node verifies an id without any package.
The id names the list, not only the content: the same files under another digest algorithm have
another id, and so does a manifest that knows fewer digests. Roles, chunks and S3 pins do not count.

Standard library only: the prolog loads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.manifest.paths import encode_path

PATTERN = re.compile(r"c1-[0-9a-f]{32}")


class ContentId:
    """The id of a stream of files that arrive in ascending order of their path's bytes."""

    def __init__(self) -> None:
        import hashlib  # 3 ms of a prolog that only looks at a header

        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, raw_path: bytes, size_bytes: int | None, digest: str | None) -> None:
        """Count one file in."""
        size = "" if size_bytes is None else size_bytes
        self._hash.update(b"%b\0%b\n" % (raw_path, f"{size}\0{digest or ''}".encode()))

    def value(self) -> str:
        """The id of what was added so far."""
        return "c1-" + self._hash.hexdigest()


def content_id_of(files: Iterable[FileEntry]) -> str:
    """The content id of some files, in whatever order they come."""
    ident = ContentId()
    for raw, entry in sorted(((encode_path(e.path), e) for e in files), key=lambda pair: pair[0]):
        ident.add(raw, entry.size_bytes, entry.digest)
    return ident.value()
