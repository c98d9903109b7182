"""What goes into a manifest after all: files that were read and are still the same, and a header.

Everything else is a problem with its reason: unreadable, changed, gone, or new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slurm_io import __version__
from slurm_io.staging.manifest.batch import Outcome
from slurm_io.staging.manifest.content_id import content_id_of
from slurm_io.staging.manifest.hashing import FileDigest, Identity
from slurm_io.staging.manifest.model import FileEntry, Header
from slurm_io.staging.manifest.paths import decode_path, notes_on, printable
from slurm_io.staging.manifest.roles import role_of
from slurm_io.staging.manifest.rows import totals_of
from slurm_io.staging.manifest.walk import Listing, Problem

_NAMED_IN_NOTES = 20


def identities_of(listing: Listing, outcomes: Sequence[Outcome | None]) -> dict[bytes, Identity]:
    """What each file was that got a digest: the second look compares with it."""
    return {
        found.raw_path: outcome.identity
        for found, outcome in zip(listing.files, outcomes, strict=True)
        if isinstance(outcome, FileDigest)
    }


def judge(
    before: Listing,
    outcomes: Sequence[Outcome | None],
    after: Listing,
    moved: dict[bytes, Identity],
) -> tuple[list[FileEntry], list[Problem]]:
    """Entries of what was read and is still the same; all else as problems.

    `after` lists what the second look found new or other than :func:`identities_of`; `moved` is
    what it did not find as it was.
    """
    now = {found.raw_path: found.identity for found in after.files}
    entries, problems = [], []
    for found, outcome in zip(before.files, outcomes, strict=True):
        raw, path = found.raw_path, decode_path(found.raw_path)
        state = now.pop(raw, None) if now else None
        if not isinstance(outcome, FileDigest):
            problems.append(Problem(path, outcome or "was not read"))
        elif raw in moved and state != outcome.identity:
            problems.append(Problem(path, "changed or went away after it was read"))
        else:
            entries.append(_entry(path, outcome))
    problems += [Problem(decode_path(raw), "appeared while the manifest was built") for raw in now]
    return entries, sorted({*problems, *before.problems, *after.problems})


def header_of_build(
    template: Header,
    entries: Sequence[FileEntry],
    problems: Sequence[Problem],
    listing: Listing,
) -> Header:
    """The header of what was built; `template` knows all that the files do not tell."""
    totals = totals_of(entries)
    return replace(
        template,
        content_id=content_id_of(entries),
        file_count=totals.file_count,
        total_bytes=totals.total_bytes,
        creator=template.creator or f"slurm_io {__version__}",
        notes=(
            *template.notes,
            *_notes(listing, problems),
            *notes_on(entry.path for entry in entries),
        ),
        signature=None,
        missing_count=len(problems),
        links="inside" if any(found.target is not None for found in listing.files) else None,
    )


def _entry(path: str, found: FileDigest) -> FileEntry:
    return FileEntry(
        path=path,
        size_bytes=found.identity.size_bytes,
        digest=found.digest,
        ends=found.ends,
        chunks=found.chunks,
        role=role_of(path),
    )


def _notes(listing: Listing, problems: Sequence[Problem]) -> list[str]:
    notes = []
    if problems:
        notes.append(f"INCOMPLETE: {len(problems)} path(s) are missing, see missing_count")
        notes += [
            f"missing {printable(problem.path)}: {problem.reason}"[:1000]
            for problem in problems[:_NAMED_IN_NOTES]
        ]
    links = sum(found.target is not None for found in listing.files)
    if links:
        notes.append(f"{links} file(s) are symbolic links inside the folder")
    for rule, count in sorted(listing.left_out.items()):
        notes.append(f"left out {count} path(s): {printable(rule)}")
    return notes
