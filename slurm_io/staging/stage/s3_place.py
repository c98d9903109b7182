"""Where files of a dataset are in an object store. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slurm_io.errors import UsageError
from slurm_io.staging.manifest.model import FileEntry

_WHERE = re.compile(r"s3://([a-z0-9][a-z0-9._-]{1,253})(?:/(.*))?", re.DOTALL)


@dataclass(frozen=True)
class S3Place:
    """A bucket and a prefix, which ends with ``/`` unless it is empty."""

    bucket: str
    prefix: str

    @classmethod
    def of(cls, where: str) -> S3Place:
        """Of ``s3://BUCKET/PREFIX``. Raises UsageError."""
        found = _WHERE.fullmatch(where)
        if found is None:
            raise UsageError(f"{where!a} is not of the form s3://BUCKET/PREFIX")
        prefix = (found[2] or "").strip("/")
        return cls(found[1], f"{prefix}/" if prefix else "")

    def key(self, entry: FileEntry) -> str | None:
        """Key of a file; None when no key can be its name (bytes that are not UTF-8)."""
        try:
            entry.path.encode()
        except UnicodeEncodeError:
            return None
        return self.prefix + entry.path


def bare_etag(etag: str | None) -> str | None:
    """Without the quotes that headers and some listings put around it."""
    return etag.strip().removeprefix("W/").strip('"') if etag else None
