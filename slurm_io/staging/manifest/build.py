"""Build a dataset's manifest: list, hash on all cores, look again, write.

A manifest never looks complete when it is not: what could not be read ends the build, or (with
`keep_going`) is counted in the header. The folder is listed again at the end, and whatever changed,
came or went meanwhile is a problem as well. A killed build goes on from its journal and gives the
very same bytes.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from slurm_io.errors import ManifestError, UsageError
from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest import files, journal
from slurm_io.staging.manifest.algorithms import maker_of
from slurm_io.staging.manifest.batch import Done, Job, Outcome
from slurm_io.staging.manifest.build_judge import header_of_build, identities_of, judge
from slurm_io.staging.manifest.build_options import (
    CHUNK_BYTES,
    BuildOptions,
    BuildProblems,
    BuildResult,
    OnProgress,
    Progress,
    new_template,
)
from slurm_io.staging.manifest.exclude import Exclusions
from slurm_io.staging.manifest.hashing import FileDigest, HowToHash, Identity
from slurm_io.staging.manifest.model import Header, Manifest
from slurm_io.staging.manifest.paths import decode_path, encode_path, printable
from slurm_io.staging.manifest.pool import hash_files
from slurm_io.staging.manifest.rows import MAX_CHUNKS
from slurm_io.staging.manifest.walk import Found, Listing, Walk

__all__ = [
    "CHUNK_BYTES",
    "BuildOptions",
    "BuildProblems",
    "BuildResult",
    "OnProgress",
    "Progress",
    "build",
    "new_template",
]

# A build makes millions of small objects and no cycles: looking for cycles among them at the usual
# pace takes a seventh of its time. (Not off: a progress bar does make cycles.)
_GC_THRESHOLDS = 200_000, 50, 100


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
    with folder, _few_collections():
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
            known = identities_of(listing, self._outcomes)
            after = self._list("checking", known)
            entries, problems = judge(listing, self._outcomes, after, known)
            if problems and not (self._options.keep_going and entries):
                raise BuildProblems(self._root, problems)
            header = header_of_build(self._template(log), entries, problems, listing)
            form = files.write_manifest(self._output, Manifest(header, entries), self._options.form)
            made = True
        finally:
            log.close(remove=made)
        seconds = time.monotonic() - start
        return BuildResult(header, form, tuple(problems), listing.left_out, resumed, seconds)

    def _list(
        self, phase: Literal["listing", "checking"], known: dict[bytes, Identity] | None = None
    ) -> Listing:
        exclusions = Exclusions(
            self._options.exclude, self._options.default_excludes, self._own_files()
        )
        walk = Walk(self._folder, exclusions, self._options.follow_links, self._root)
        total = len(self._outcomes) or None
        try:
            return walk.run(lambda count: self._tell(Progress(phase, count, total)), known)
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
        self._outcomes = [_still_true(found, known) if known else None for found in listing.files]
        resumed = sum(outcome is not None for outcome in self._outcomes)
        known.clear()
        sizes = [found.identity.size_bytes for found in listing.files]
        jobs = [
            Job(index, found.raw_path, found.target or found.raw_path, sizes[index])
            for index, found in enumerate(listing.files)
            if self._outcomes[index] is None
        ]
        total = sum(sizes)
        ready = total - sum(job.size_bytes for job in jobs)
        self._done = Progress("hashing", resumed, len(sizes), ready, total)
        self._tell(self._done)
        how = HowToHash(
            self._options.algorithm,
            self._options.ends,
            log.settings["chunk_bytes"],
            self._options.drop_cache,
        )

        def on_done(done: Done) -> None:
            self._take(done, log)

        hash_files(self._folder, jobs, how, on_done, self._count, self._options.workers)
        return resumed

    def _take(self, done: Done, log: journal.Journal) -> None:
        for index, outcome in done.outcomes:
            self._outcomes[index] = outcome
        log.add(done.line)
        self._done = replace(self._done, files=self._done.files + len(done.outcomes))
        self._tell(self._done)

    def _count(self, count: int) -> None:
        done = self._done
        self._done = Progress(
            "hashing", done.files, done.files_total, done.bytes + count, done.bytes_total
        )
        self._tell(self._done)

    def _template(self, log: journal.Journal) -> Header:
        """The header's facts that do not depend on the files."""
        return replace(
            self._options.template,
            algorithm=self._options.algorithm,
            chunk_bytes=log.settings["chunk_bytes"],
            created_at=log.settings["created_at"],
        )


@contextlib.contextmanager
def _few_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*_GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _still_true(found: Found, known: dict[str, FileDigest]) -> FileDigest | None:
    """An earlier build's digest of a file, unless the file is another by now."""
    digest = known.get(decode_path(found.raw_path))
    return digest if digest is not None and digest.identity == found.identity else None


def _is_spent(journal_path: str, output: str) -> bool:
    """Whether a journal's manifest was written: only a kill in the last instant leaves both."""
    with contextlib.suppress(OSError):
        return os.stat(output).st_mtime_ns >= os.stat(journal_path).st_mtime_ns
    return False
