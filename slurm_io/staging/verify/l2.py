"""Level 2: are the bytes on this tier, and do files begin and end as they should.

Residency first, so that no probe recalls a file from an archive. Then both ends of a random choice
of files (all of a small dataset) against the manifest's `ends`, and a few reads in between that
show a dead region of a drive.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from slurm_io.errors import ManifestError
from slurm_io.filesystems.kinds import NETWORK_KINDS
from slurm_io.filesystems.residency.judge import residency_of
from slurm_io.staging.beneath import NotAFile
from slurm_io.staging.manifest.algorithms import Hasher, maker_of
from slurm_io.staging.manifest.hashing import END_BYTES, end_ranges
from slurm_io.staging.manifest.paths import encode_path, printable
from slurm_io.staging.verify.model import Why
from slurm_io.staging.verify.reading import ALIGN_BYTES, Reader, set_direct
from slurm_io.staging.verify.sampling import choose, what_it_proves
from slurm_io.staging.verify.table import Row
from slurm_io.staging.verify.work import Work

LEVEL = 2
RESIDENCY_SHARE = 0.4
"""Part of the time left that residency may take."""
LONGEST_S = 3600.0
ZEROS = bytes(END_BYTES)


def run(work: Work, most: int | None = None) -> bool:
    """Residency and probes of at most `most` files besides those that look changed.

    False when the time was over before a sample worth the name.
    """
    chosen = _choose(work, most)
    by_index = dict(work.expected.rows(sorted(chosen)))
    rows = [(index, by_index[index]) for index in chosen]
    away = not_resident(work, rows)
    probed = _probe_all(work, [(i, row) for i, row in rows if row.entry.path not in away])
    enough = min(len(rows) - len(away), 32)
    if probed < work.expected.count:
        work.note(f"level 2 looked at {what_it_proves(work.expected.count, probed)}")
    return probed >= enough


def _choose(work: Work, most: int | None) -> list[int]:
    """Changed files, then index files, then a random sample."""
    limit = work.options.probe_files if most is None else min(most, work.options.probe_files)
    first = dict.fromkeys([*list(work.findings.open)[:limit], *work.expected.index_files()[:limit]])
    sample = choose(work.expected.count, min(limit, work.expected.count), work.options.pick)
    return [*first, *(index for index in sample if index not in first)][: max(limit, len(first))]


def not_resident(work: Work, rows: Sequence[tuple[int, Row]]) -> set[str]:
    """Paths that must not be read, because that would recall them from a slower tier."""
    if work.kind not in NETWORK_KINDS:
        return set()
    left_s = work.deadline.left_s()
    until_s = time.monotonic() + (LONGEST_S if left_s is None else left_s * RESIDENCY_SHARE)
    indices = {row.entry.path: index for index, row in rows}
    away: set[str] = set()
    answer = residency_of(work.path, list(indices), work.kind, until_s, len(indices))
    for each in answer.listed:
        state: Why = "suspect" if each.state == "suspect" else "evicted"
        away.add(each.path)
        detail = f"{each.reason or each.state} ({each.source})"
        work.bad(encode_path(each.path), state, LEVEL, detail, indices[each.path])
    unknown = answer.counts["unknown"] + answer.not_asked
    if unknown:
        why = answer.reason or "not all were asked in time"
        work.note(f"level 2: residency of {unknown} of {len(rows)} files is not known: {why}")
    return away


def _probe_all(work: Work, rows: Sequence[tuple[int, Row]]) -> int:
    """How many files were probed before the time was over."""
    reader = Reader(END_BYTES + ALIGN_BYTES)  # a tail begins anywhere
    try:
        for done, (index, row) in enumerate(rows):
            if work.deadline.over():
                work.note(f"level 2: the time was over with {len(rows) - done} files to probe")
                return done
            _probe(work, reader, index, row)
            work.files_probed += 1
            work.progress(LEVEL, done + 1, len(rows))
        return len(rows)
    finally:
        work.bytes_read += reader.bytes_read
        work.bytes_from_cache += reader.bytes_from_cache
        reader.close()


def _probe(work: Work, reader: Reader, index: int, row: Row) -> None:
    path = encode_path(row.entry.path)
    try:
        descriptor, found = work.open(path)
    except NotAFile as error:
        work.bad(path, "not a file", LEVEL, f"is {error}", index)
        return
    except FileNotFoundError:
        work.bad(path, "missing", LEVEL, "", index)
        return
    except OSError as error:
        work.bad(path, "unreadable", LEVEL, error.strerror or str(error), index)
        return
    try:
        if row.entry.size_bytes in (None, found.st_size):
            _look(work, reader, index, row, descriptor, found.st_size)
    except OSError as error:
        work.bad(path, "unreadable", LEVEL, error.strerror or str(error), index)
    finally:
        os.close(descriptor)


def _look(
    work: Work, reader: Reader, index: int, row: Row, descriptor: int, size_bytes: int
) -> None:
    set_direct(descriptor, True)
    right = _ends_are_right(work, reader, row.entry.ends, descriptor, size_bytes)
    if not right:
        tail = reader.read(descriptor, max(0, size_bytes - END_BYTES), END_BYTES)
        _blame(work, index, row, right, bool(tail) and tail == ZEROS[: len(tail)], len(tail))
    for _ in range(work.options.random_probes if size_bytes > 3 * END_BYTES else 0):
        reader.read(descriptor, work.options.pick(size_bytes - END_BYTES), END_BYTES)


def _blame(
    work: Work, index: int, row: Row, right: bool | None, is_zero: bool, tail_bytes: int
) -> None:
    """Report wrong ends, or (`right` None) ends that nothing can prove but look wrong."""
    path = encode_path(row.entry.path)
    zeros = f"its last {tail_bytes} bytes are zeros"
    if right is None and is_zero and tail_bytes == END_BYTES:
        detail = f"{zeros}, and the manifest has no digest of them"
        work.bad(path, "suspect", LEVEL, detail, index)
    elif right is False and is_zero:
        work.bad(path, "zero tail", LEVEL, zeros, index)
    elif right is False:
        work.bad(path, "content", LEVEL, "its first or last 64 KiB are other bytes", index)


def _ends_are_right(
    work: Work, reader: Reader, ends: str | None, descriptor: int, size_bytes: int
) -> bool | None:
    """Reads both ends; None when nothing tells what they should be."""
    hasher, digits = _hasher(work, ends)
    for start, length in end_ranges(size_bytes):
        for at in range(start, start + length, END_BYTES):
            piece = reader.read(descriptor, at, min(END_BYTES, start + length - at))
            if hasher is not None:
                hasher.update(piece)
    return None if hasher is None else hasher.hexdigest() == digits


def _hasher(work: Work, ends: str | None) -> tuple[Hasher | None, str]:
    """What computes such a digest, and what it should be."""
    if ends is None:
        work.note("level 2: files without a digest of their ends were only read")
        return None, ""
    algorithm, _, digits = ends.partition(":")
    try:
        return maker_of(algorithm)(), digits
    except ManifestError as error:
        work.note(f"level 2: ends were read but not compared: {printable(str(error))}")
        return None, ""
