"""Build a dataset's manifest: list, hash on all cores, look again, write.

A manifest never looks complete when it is not: what could not be read ends the build, or (with
`keep_going`) is counted in the header. The folder is listed again at the end, and whatever changed,
came or went meanwhile is a problem as well. A killed build goes on from its journal and gives the
very same bytes.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from slurm_io import __version__
from slurm_io.errors import ManifestError, UsageError
from slurm_io.staging.manifest import files, journal
from slurm_io.staging.manifest.algorithms import DEFAULT, maker_of
from slurm_io.staging.manifest.beneath import Folder
from slurm_io.staging.manifest.content_id import content_id_of
from slurm_io.staging.manifest.exclude import Exclusions
from slurm_io.staging.manifest.hashing import FileDigest, HowToHash
from slurm_io.staging.manifest.model import FileEntry, Header, Manifest
from slurm_io.staging.manifest.paths import decode_path, encode_path, notes_on, printable
from slurm_io.staging.manifest.pool import cores, hash_files
from slurm_io.staging.manifest.roles import role_of
from slurm_io.staging.manifest.rows import MAX_CHUNKS, totals_of
from slurm_io.staging.manifest.walk import FollowLinks, Found, Listing, Problem, Walk
from slurm_io.staging.manifest.worker import Outcome

CHUNK_BYTES = 256 << 20
_READ_AHEAD = 4  # of each file, when there are fewer files than cores to share them
_NAMED_IN_NOTES = 20


@dataclass(frozen=True)
class BuildOptions:
    """How to build. `template` holds the header's own facts (dataset, tokens, sources, notes, …).

    `chunk_bytes`: digests of pieces too, doubled until no file has more than 8192 of them.
    `workers` None: one a core. `created_at` empty: now.
    """

    template: Header
    algorithm: str = DEFAULT
    ends: bool = True
    chunk_bytes: int | None = None
    exclude: tuple[str, ...] = ()
    default_excludes: bool = True
    follow_links: FollowLinks = "refuse"
    keep_going: bool = False
    resume: bool = True
    drop_cache: bool = False
    workers: int | None = None
    form: files.Form | None = None


@dataclass(frozen=True)
class Progress:
    """How far a build is. Totals are None while listing."""

    phase: Literal["listing", "hashing", "checking"]
    files: int
    files_total: int | None = None
    bytes: int = 0
    bytes_total: int | None = None


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class BuildResult:
    """What a build made. `resumed_files` were taken from an earlier build's journal."""

    header: Header
    form: files.Form
    problems: tuple[Problem, ...] = ()
    left_out: dict[str, int] = field(default_factory=dict)
    resumed_files: int = 0
    seconds: float = 0.0


class BuildProblems(ManifestError):
    """Some files cannot be in the manifest; none was written."""

    def __init__(self, root: str, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        first = problems[0]
        super().__init__(
            f"{printable(root)}: no manifest, {len(problems)} path(s) cannot be in it, first "
            f"{printable(first.path)}: {first.reason}; mend them, or --keep-going without them"
        )


def build(
    root: str, output: str, options: BuildOptions, on_progress: OnProgress | None = None
) -> BuildResult:
    """Build the manifest of folder `root` and write it to `output`.

    Raises ManifestError (nothing written): unreadable, empty or changing folder, another build of
    the same manifest, a full disk; BuildProblems with every path that cannot be in it.
    """
    # What cannot end well shows before an hour of hashing.
    maker_of(options.algorithm)
    if os.path.isdir(output):
        raise UsageError(f"{printable(output)}: is a folder; give the manifest's own name")
    try:
        folder = Folder.at(root)
    except OSError as error:
        raise ManifestError(f"{printable(root)}: cannot be read ({error.strerror})") from error
    with folder:
        return _Build(folder, root, output, options, on_progress or (lambda progress: None)).run()


class _Build:
    """One build from listing to manifest."""

    def __init__(
        self, folder: Folder, root: str, output: str, options: BuildOptions, tell: OnProgress
    ) -> None:
        self._folder = folder
        self._root = root
        self._output = output
        self._options = options
        self._tell = tell
        self._outcomes: list[Outcome | None] = []
        self._done = Progress("listing", 0)

    def run(self) -> BuildResult:
        start = time.monotonic()
        listing = self._list("listing")
        if listing.problems and not self._options.keep_going:
            raise BuildProblems(self._root, listing.problems)
        if not listing.files:
            raise ManifestError(
                f"{printable(self._root)}: holds no file a manifest could name: is it the right "
                "folder, and is it mounted?"
            )
        log = self._open_journal(listing)
        made = False
        try:
            resumed = self._hash(listing, log)
            entries, problems = self._judge(listing, self._list("checking"))
            header = self._header(entries, problems, listing, log)
            form = files.write_manifest(self._output, Manifest(header, entries), self._options.form)
            made = True
        finally:
            log.close(remove=made)
        seconds = time.monotonic() - start
        return BuildResult(header, form, tuple(problems), listing.left_out, resumed, seconds)

    def _list(self, phase: Literal["listing", "checking"]) -> Listing:
        exclusions = Exclusions(
            self._options.exclude, self._options.default_excludes, self._own_files()
        )
        walk = Walk(self._folder, exclusions, self._options.follow_links)
        total = len(self._outcomes) or None
        try:
            return walk.run(lambda count: self._tell(Progress(phase, count, total)))
        except OSError as error:
            raise ManifestError(
                f"{printable(self._root)}: cannot be read ({error.strerror})"
            ) from error

    def _own_files(self) -> set[bytes]:
        """The manifest and its journal, when they lie in the folder itself."""
        inside = os.path.relpath(os.path.realpath(self._output), os.path.realpath(self._root))
        return {encode_path(inside), encode_path(inside + journal.SUFFIX)}

    def _open_journal(self, listing: Listing) -> journal.Journal:
        root = os.fstat(self._folder.fd)
        settings: dict[str, Any] = {
            "root": [root.st_dev, root.st_ino],
            "algorithm": self._options.algorithm,
            "ends": self._options.ends,
            "chunk_bytes": self._chunk_bytes(listing),
            "created_at": self._options.template.created_at
            or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        path = self._output + journal.SUFFIX
        resume = self._options.resume and not _is_spent(path, self._output)
        return journal.Journal(path, settings, resume)

    def _chunk_bytes(self, listing: Listing) -> int | None:
        size = self._options.chunk_bytes
        largest = max(found.identity.size_bytes for found in listing.files)
        while size is not None and largest > size * MAX_CHUNKS:
            size *= 2
        return size

    def _hash(self, listing: Listing, log: journal.Journal) -> int:
        """Fill in the outcome of every file; how many came from the journal."""
        known = log.digests
        self._outcomes = [_still_true(found, known) for found in listing.files]
        resumed = sum(outcome is not None for outcome in self._outcomes)
        known.clear()
        sizes = [found.identity.size_bytes for found in listing.files]
        jobs = [
            (index, found.target or found.raw_path, sizes[index])
            for index, found in enumerate(listing.files)
            if self._outcomes[index] is None
        ]
        total = sum(sizes)
        ready = total - sum(size for _, _, size in jobs)
        self._done = Progress("hashing", resumed, len(sizes), ready, total)
        self._tell(self._done)
        how = HowToHash(
            self._options.algorithm,
            self._options.ends,
            log.settings["chunk_bytes"],
            self._options.drop_cache,
            _READ_AHEAD if len(jobs) < cores() else 1,
        )

        def on_done(outcomes: list[tuple[int, Outcome]]) -> None:
            self._take(outcomes, listing.files, log)

        hash_files(self._folder, jobs, how, on_done, self._count, self._options.workers)
        return resumed

    def _take(
        self,
        outcomes: list[tuple[int, Outcome]],
        found: Sequence[Found],
        log: journal.Journal,
    ) -> None:
        for index, outcome in outcomes:
            self._outcomes[index] = outcome
        log.add(
            (decode_path(found[index].raw_path), outcome)
            for index, outcome in outcomes
            if isinstance(outcome, FileDigest)
        )
        self._done = replace(self._done, files=self._done.files + len(outcomes))
        self._tell(self._done)

    def _count(self, count: int) -> None:
        done = self._done
        self._done = Progress(
            "hashing", done.files, done.files_total, done.bytes + count, done.bytes_total
        )
        self._tell(self._done)

    def _judge(self, before: Listing, after: Listing) -> tuple[list[FileEntry], list[Problem]]:
        """Entries of what was read and is still the same; all else as problems."""
        now = {found.raw_path: found.identity for found in after.files}
        entries, problems = [], []
        for found, outcome in zip(before.files, self._outcomes, strict=True):
            path = decode_path(found.raw_path)
            state = now.pop(found.raw_path, None)
            if not isinstance(outcome, FileDigest):
                problems.append(Problem(path, outcome or "was not read"))
            elif state != outcome.identity:
                problems.append(Problem(path, "changed or went away after it was read"))
            else:
                entries.append(_entry(path, outcome))
        problems += [
            Problem(decode_path(raw), "appeared while the manifest was built") for raw in now
        ]
        problems = sorted({*problems, *before.problems, *after.problems})
        if problems and not (self._options.keep_going and entries):
            raise BuildProblems(self._root, problems)
        return entries, problems

    def _header(
        self,
        entries: Sequence[FileEntry],
        problems: Sequence[Problem],
        listing: Listing,
        log: journal.Journal,
    ) -> Header:
        totals = totals_of(entries)
        return replace(
            self._options.template,
            content_id=content_id_of(entries),
            file_count=totals.file_count,
            total_bytes=totals.total_bytes,
            algorithm=self._options.algorithm,
            chunk_bytes=log.settings["chunk_bytes"],
            created_at=log.settings["created_at"],
            creator=self._options.template.creator or f"slurm_io {__version__}",
            notes=(
                *self._options.template.notes,
                *_notes(listing, problems),
                *notes_on(entry.path for entry in entries),
            ),
            signature=None,
            missing_count=len(problems),
        )


def new_template(dataset: str, **facts: Any) -> Header:
    """A header for :class:`BuildOptions`: what is known before any file was read.

    Raises UsageError for a name that cannot name a dataset.
    """
    if not dataset or len(dataset) > 256 or not dataset.isprintable():
        raise UsageError(f"dataset name {dataset!a:.80}: give 1 to 256 printable characters")
    return Header(dataset=dataset, content_id="", file_count=0, total_bytes=None, **facts)


def _entry(path: str, found: FileDigest) -> FileEntry:
    return FileEntry(
        path=path,
        size_bytes=found.identity.size_bytes,
        digest=found.digest,
        ends=found.ends,
        chunks=found.chunks,
        role=role_of(path),
    )


def _still_true(found: Found, known: dict[str, FileDigest]) -> FileDigest | None:
    """An earlier build's digest of a file, unless the file is another by now."""
    digest = known.get(decode_path(found.raw_path))
    return digest if digest is not None and digest.identity == found.identity else None


def _is_spent(journal_path: str, output: str) -> bool:
    """Whether a journal's manifest was written: only a kill in the last instant leaves both."""
    with contextlib.suppress(OSError):
        return os.stat(output).st_mtime_ns >= os.stat(journal_path).st_mtime_ns
    return False


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
