"""A foreign description beside a copy of the files: fill in what it lacks, list what disagrees.

Sizes come from stat. With hashing, every file is read once: each digest the source names is
compared, and our own is added. A file that disagrees keeps what the source says: the copy is at
fault, or the source, but the manifest must not bless the difference.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.algorithms import DEFAULT, Hasher, maker_of
from slurm_io.staging.manifest.foreign_source import Source
from slurm_io.staging.manifest.hashing import Identity, ends_of
from slurm_io.staging.manifest.imports.base import Problem, Stated
from slurm_io.staging.manifest.model import FileEntry

_BLOCK_BYTES = 1 << 20  # large enough for hashlib and xxhash to let other threads run
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Compared:
    """Entries with what the copy added, what disagreed, and what could not be compared."""

    entries: tuple[FileEntry, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()


def compare(
    entries: Sequence[FileEntry],
    root: str,
    *,
    hashing: bool,
    bad: Collection[str] = (),
    on_progress: OnProgress | None = None,
) -> Compared:
    """Look at every file below `root`; `bad` are known to be damaged and add nothing.

    `on_progress` is told how many files and bytes were looked at so far.
    """
    with Source(root) as copy:
        if not copy.is_folder:
            raise ManifestError(f"{copy.shown}: --root must be the folder of the copy")
        unable = _not_computable(entries) if hashing else frozenset()
        looked = _hashed(entries, copy, unable) if hashing else _sized(entries, copy)
        filled: list[FileEntry] = []
        problems: list[Problem] = []
        done_bytes = 0
        for entry, outcome in zip(entries, looked, strict=True):
            if isinstance(outcome, Problem):
                problems.append(outcome)
            filled.append(entry if isinstance(outcome, Problem) or entry.path in bad else outcome)
            done_bytes += filled[-1].size_bytes or 0
            if on_progress:
                on_progress(len(filled), done_bytes)
    notes = [f"{name} digests were not compared: nothing here makes them" for name in unable]
    return Compared(tuple(filled), tuple(problems), tuple(sorted(notes)))


def check_stated(stated: Stated | None, entries: Sequence[FileEntry]) -> list[Problem]:
    """The total a source states against the sizes known; nothing while one is unknown."""
    if stated is None:
        return []
    sizes = [entry.size_bytes for entry in entries if entry.path.startswith(stated.below)]
    known = [size for size in sizes if size is not None]
    if len(known) != len(sizes) or sum(known) == stated.total_bytes:
        return []
    text = f"{stated.where} says {stated.total_bytes} bytes, the files make {sum(known)}"
    return [Problem("contradiction", stated.below or ".", text, stated.total_bytes, sum(known))]


def _sized(entries: Sequence[FileEntry], copy: Source) -> Iterator[FileEntry | Problem]:
    for entry in entries:
        fd = _opened(entry, copy)
        if isinstance(fd, Problem):
            yield fd
            continue
        try:
            yield _size_judged(entry, os.fstat(fd).st_size)
        finally:
            os.close(fd)


def _hashed(
    entries: Sequence[FileEntry], copy: Source, unable: frozenset[str]
) -> Iterator[FileEntry | Problem]:
    """Outcomes in order; a few files are read at once. Files are opened here: one thread only."""
    workers = min(len(os.sched_getaffinity(0)), 16)
    with ThreadPoolExecutor(workers) as pool:
        window: deque[Future[FileEntry | Problem] | Problem] = deque()
        for entry in entries:
            fd = _opened(entry, copy)
            window.append(
                fd if isinstance(fd, Problem) else pool.submit(_hash_one, entry, fd, unable)
            )
            if len(window) > 2 * workers:
                yield _result(window.popleft())
        while window:
            yield _result(window.popleft())


def _result(waiting: Future[FileEntry | Problem] | Problem) -> FileEntry | Problem:
    return waiting if isinstance(waiting, Problem) else waiting.result()


def _opened(entry: FileEntry, copy: Source) -> int | Problem:
    try:
        fd = copy.open_below(entry.path)
    except ManifestError as error:
        text = str(error).rpartition(": ")[2]
        return Problem("unreadable", entry.path, text, entry.size_bytes)
    if fd is None:
        return Problem("missing", entry.path, "is not in the copy", entry.size_bytes)
    return fd


def _size_judged(entry: FileEntry, found_bytes: int) -> FileEntry | Problem:
    if entry.size_bytes in (None, found_bytes):
        return replace(entry, size_bytes=found_bytes)
    text = f"has {found_bytes} bytes, the source says {entry.size_bytes}"
    return Problem("size", entry.path, text, entry.size_bytes, found_bytes)


def _hash_one(entry: FileEntry, fd: int, unable: frozenset[str]) -> FileEntry | Problem:
    """Read one file once; closes `fd`."""
    try:
        before = Identity.of(os.fstat(fd))
        judged = _size_judged(entry, before.size_bytes)
        if isinstance(judged, Problem):
            return judged
        named = _named(entry)
        hashers = {name: maker_of(name)() for name in {*named, DEFAULT} - unable}
        done_bytes = _feed(fd, list(hashers.values()), before.size_bytes)
        ends = ends_of(fd, before.size_bytes)
        if done_bytes != before.size_bytes or Identity.of(os.fstat(fd)) != before:
            return Problem("unreadable", entry.path, "changed while it was read")
        return _digests_judged(judged, named, hashers, ends)
    except OSError as error:
        return Problem("unreadable", entry.path, f"cannot be read ({error.strerror})")
    finally:
        os.close(fd)


def _digests_judged(
    entry: FileEntry, named: dict[str, str], hashers: dict[str, Hasher], ends: str
) -> FileEntry | Problem:
    for name, expected in named.items():
        if name not in hashers:
            continue
        found = f"{name}:{hashers[name].hexdigest()}"
        if found != expected:
            text = f"is {found}, the source says {expected}"
            return Problem("corrupt", entry.path, text, expected, found)
    own = f"{DEFAULT}:{hashers[DEFAULT].hexdigest()}"
    others = tuple(digest for name, digest in named.items() if name != DEFAULT)
    return replace(entry, digest=own, ends=ends, digests=others)


def _feed(fd: int, hashers: list[Hasher], size_bytes: int) -> int:
    buffer = memoryview(bytearray(min(_BLOCK_BYTES, max(size_bytes, 1))))
    start = 0
    while start < size_bytes and (count := os.preadv(fd, [buffer], start)):
        block = buffer[: min(count, size_bytes - start)]
        for hasher in hashers:
            hasher.update(block)
        start += len(block)
    return start


def _named(entry: FileEntry) -> dict[str, str]:
    """Algorithm -> digest, of all the source names for a file."""
    found = (entry.digest, *entry.digests)
    return {one.partition(":")[0]: one for one in found if one is not None}


def _not_computable(entries: Sequence[FileEntry]) -> frozenset[str]:
    """Algorithms of the source that cannot be made here (no package, or S3's own)."""
    missing = set()
    for name in {name for entry in entries for name in _named(entry)}:
        try:
            maker_of(name)
        except ManifestError:
            missing.add(name)
    return frozenset(missing)
