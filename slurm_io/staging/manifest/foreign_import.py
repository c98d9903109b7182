"""Import: find the format, read the source, look at a local copy, write the manifest."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

from slurm_io import __version__
from slurm_io.errors import UsageError
from slurm_io.staging.manifest import files
from slurm_io.staging.manifest.algorithms import DEFAULT
from slurm_io.staging.manifest.build import new_template
from slurm_io.staging.manifest.content_id import content_id_of
from slurm_io.staging.manifest.foreign_local import OnProgress, check_stated, compare
from slurm_io.staging.manifest.foreign_source import Source, shown
from slurm_io.staging.manifest.imports.base import (
    Imported,
    ImportOptions,
    Problem,
    importer_for,
)
from slurm_io.staging.manifest.model import FileEntry, Header, Manifest
from slurm_io.staging.manifest.paths import notes_on
from slurm_io.staging.manifest.rows import totals_of

_MAX_NOTES = 200
_MAX_NOTE = 1000


@dataclass(frozen=True)
class ImportRequest:
    """What to import. `format` None: recognised by content. `dataset` None: the folder's name."""

    source: str
    format: str | None = None
    dataset: str | None = None
    hashing: bool = False
    options: ImportOptions = field(default_factory=ImportOptions)


@dataclass(frozen=True)
class ImportResult:
    """The manifest that was read, by which importer, and what disagreed with it."""

    format: str
    manifest: Manifest
    problems: tuple[Problem, ...]


def read_foreign(request: ImportRequest, on_progress: OnProgress | None = None) -> ImportResult:
    """Read a foreign description; look at the local copy where there is one.

    Raises UsageError (options, ambiguous format) and ManifestError (the source cannot be read).
    """
    if request.hashing and request.options.root is None:
        raise UsageError("--hash needs --root DIR: the folder whose files are to be read")
    with Source(request.source) as source:
        name, importer = importer_for(source, request.format)
        imported = importer.read(source, request.options)
        dataset = request.dataset or os.path.basename(source.folder) or "dataset"
    entries, problems, notes = imported.entries, list(imported.problems), list(imported.notes)
    if request.options.root is not None:
        compared = compare(
            entries,
            request.options.root,
            hashing=request.hashing,
            bad={problem.path for problem in problems},
            on_progress=on_progress,
        )
        entries = compared.entries
        problems += compared.problems
        notes += compared.notes
    problems += check_stated(imported.stated, entries)
    header = _header(dataset, name, imported, entries, notes)
    return ImportResult(name, Manifest(header, entries), tuple(_each_once(problems)))


def import_manifest(
    request: ImportRequest, output: str, on_progress: OnProgress | None = None
) -> tuple[ImportResult, files.Form]:
    """Read a foreign description and write it to `output`, whatever disagreed with it."""
    result = read_foreign(request, on_progress)
    return result, files.write_manifest(output, result.manifest)


def _header(
    dataset: str,
    format_name: str,
    imported: Imported,
    entries: tuple[FileEntry, ...],
    notes: list[str],
) -> Header:
    totals = totals_of(entries)
    algorithms = {entry.digest.partition(":")[0] for entry in entries if entry.digest}
    missing = sum(entry.digest is None for entry in entries)
    if missing:
        notes.append(f"{missing} of {len(entries)} files without a digest")
    template = new_template(
        shown(dataset),
        sources=tuple(shown(source)[:4096] for source in imported.sources[:64]),
        tokens=imported.tokens,
    )
    return Header(
        dataset=template.dataset,
        content_id=content_id_of(entries),
        file_count=totals.file_count,
        total_bytes=totals.total_bytes,
        algorithm=algorithms.pop() if len(algorithms) == 1 else DEFAULT,
        created_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        creator=f"slurm_io {__version__}, from {format_name}",
        sources=template.sources,
        tokens=template.tokens,
        notes=_printable((*notes, *notes_on(entry.path for entry in entries))),
    )


def _printable(notes: tuple[str, ...]) -> tuple[str, ...]:
    """Notes as a header takes them: one line each, not too long, not too many, each once."""
    once = dict.fromkeys(
        note[:_MAX_NOTE] if note.isascii() and note.isprintable() else ascii(note[:_MAX_NOTE])
        for note in notes
    )
    return tuple(once)[:_MAX_NOTES]


def _each_once(problems: list[Problem]) -> list[Problem]:
    """The first problem of each kind and file: a bad shard is found by its header and by stat."""
    found: dict[tuple[str, str, str | None], Problem] = {}
    for problem in problems:
        found.setdefault((problem.kind, problem.path, problem.tensor), problem)
    return list(found.values())
