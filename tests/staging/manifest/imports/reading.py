"""How the tests of importers read: by the product's own way, written values in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slurm_io.staging.manifest.foreign_import import ImportRequest, ImportResult, read_foreign
from slurm_io.staging.manifest.imports.base import ImportOptions
from slurm_io.staging.manifest.model import FileEntry

FIXTURES = Path(__file__).parents[3] / "fixtures"
MD5 = "0123456789abcdef0123456789abcdef"
SHA256 = "0123456789abcdef" * 4


def foreign(
    path: Path,
    format_name: str | None = None,
    *,
    hashing: bool = False,
    root: Path | None = None,
    **options: Any,
) -> ImportResult:
    """Import one source; without `format_name` it must be recognised."""
    where = ImportOptions(root=str(root) if root else None, **options)
    return read_foreign(ImportRequest(str(path), format_name, None, hashing, where))


def by_path(result: ImportResult) -> dict[str, FileEntry]:
    """The files of a result."""
    return {entry.path: entry for entry in result.manifest.files}


def rows(result: ImportResult) -> dict[str, tuple[int | None, str | None]]:
    """Path -> (size, digest)."""
    return {entry.path: (entry.size_bytes, entry.digest) for entry in result.manifest.files}


def notes(result: ImportResult) -> str:
    """All notes as one text."""
    return "\n".join(result.manifest.header.notes)


def problems(result: ImportResult) -> list[tuple[str, str]]:
    """(kind, path) of what disagreed."""
    return [(problem.kind, problem.path) for problem in result.problems]


def written(path: Path, content: bytes | str | object) -> Path:
    """A file, its folders made; what is neither bytes nor text goes as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    else:
        path.write_text(json.dumps(content))
    return path
