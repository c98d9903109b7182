"""Hashing a batch of files below one folder: in a lane of the pool or in a worker process."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from slurm_io.errors import ManifestError
from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.hashing import FileDigest, FileHasher, Identity, OnBytes
from slurm_io.staging.manifest.journal import line_of
from slurm_io.staging.manifest.paths import decode_path

OPEN_FILES = 16  # whose bytes are on their way at once
Outcome = FileDigest | str  # a digest, or why there is none


class Job(NamedTuple):
    """One file to hash. `opened`: the path it is opened by, another one where a link leads."""

    number: int
    raw_path: bytes
    opened: bytes
    size_bytes: int


class Done(NamedTuple):
    """What became of some jobs: an outcome for each, and the journal's line of the digests."""

    outcomes: list[tuple[int, Outcome]]
    line: bytes


def hash_small(root: Folder, jobs: Sequence[Job], hasher: FileHasher, open_files: int) -> Done:
    """Hash small files; an unreadable one gives its reason.

    Whatever is not in memory is asked for and waited for later, so that reads of up to
    `open_files` files are on their way at once: one at a time is all that a core reads by itself.
    """
    outcomes: list[tuple[int, Outcome]] = []
    waiting: deque[tuple[int, int, Identity]] = deque()
    for job in jobs:
        if len(waiting) >= open_files:
            outcomes.append(_finished(*waiting.popleft(), hasher))
        try:
            fd = root.open_file(job.opened)
        except OSError as error:
            outcomes.append((job.number, _reason(error)))
            continue
        outcome = _begun(fd, hasher)
        if isinstance(outcome, Identity):
            waiting.append((job.number, fd, outcome))
        else:
            os.close(fd)
            outcomes.append((job.number, outcome))
    outcomes += [_finished(*each, hasher) for each in waiting]
    return _done(jobs, outcomes)


def hash_large(
    root: Folder, job: Job, hasher: FileHasher, on_bytes: OnBytes, ahead: int = 1
) -> Done:
    """Hash one file. `ahead` as :meth:`FileHasher.digest` has it. Raises what `on_bytes` raises."""
    outcome: Outcome
    try:
        fd = root.open_file(job.opened)
        try:
            outcome = hasher.digest(fd, on_bytes, ahead)
        finally:
            os.close(fd)
    except (ManifestError, OSError) as error:
        outcome = _reason(error)
    return _done([job], [(job.number, outcome)])


def _begun(fd: int, hasher: FileHasher) -> Outcome | Identity:
    try:
        return hasher.begin(fd)
    except (ManifestError, OSError) as error:
        return _reason(error)


def _finished(number: int, fd: int, before: Identity, hasher: FileHasher) -> tuple[int, Outcome]:
    try:
        return number, hasher.finish(fd, before)
    except (ManifestError, OSError) as error:
        return number, _reason(error)
    finally:
        os.close(fd)


def _reason(error: ManifestError | OSError) -> str:
    return str(error) if isinstance(error, ManifestError) else f"cannot be read ({error.strerror})"


def _done(jobs: Sequence[Job], outcomes: list[tuple[int, Outcome]]) -> Done:
    paths = {job.number: job.raw_path for job in jobs}
    digests = [
        (decode_path(paths[number]), outcome)
        for number, outcome in outcomes
        if not isinstance(outcome, str)
    ]
    return Done(outcomes, line_of(digests) if digests else b"")
