"""The good part of a partly copied or damaged file, by the manifest's digests of its chunks."""

from __future__ import annotations

import contextlib
import os

from slurm_io.staging.beneath import Folder, open_regular
from slurm_io.staging.manifest.algorithms import maker_of
from slurm_io.staging.manifest.model import FileEntry, Header
from slurm_io.staging.manifest.paths import encode_path
from slurm_io.staging.stage.engines.base import Ranges
from slurm_io.staging.stage.folders import entered, remove
from slurm_io.staging.verify.reading import Reader, read_in_turn, set_direct

BLOCK_BYTES = 2 << 20


def has_chunks(header: Header, entry: FileEntry) -> bool:
    """Whether pieces of a file can be told good from bad."""
    return bool(header.chunk_bytes) and len(entry.chunks) > 1 and entry.size_bytes is not None


def bad_ranges(tree: Folder, header: Header, entry: FileEntry) -> Ranges:
    """What of a file is wrong or not there yet. Raises OSError."""
    assert header.chunk_bytes is not None and entry.size_bytes is not None
    folder, _, name = encode_path(entry.path).rpartition(b"/")
    fd, facts = open_regular(tree.folder_fd(folder), name)
    reader = Reader(BLOCK_BYTES)
    try:
        os.fsync(fd)
        set_direct(fd, True)
        make = maker_of(header.algorithm)
        bad = []
        for start, digits in zip(
            range(0, entry.size_bytes, header.chunk_bytes), entry.chunks, strict=False
        ):
            length = min(header.chunk_bytes, entry.size_bytes - start)
            hasher = make()
            if start + length <= facts.st_size:
                for block in read_in_turn(reader, fd, start, length):
                    hasher.update(block)
            if hasher.hexdigest() != digits:
                bad.append((start, length))
        return tuple(bad)
    finally:
        reader.close()
        os.close(fd)


def good_prefix(ranges: Ranges, size_bytes: int) -> int:
    """Bytes before the first bad one."""
    return ranges[0][0] if ranges else size_bytes


def cut(slot: Folder, entry: FileEntry, size_bytes: int) -> None:
    """Shorten a file of a slot that is longer. Raises OSError."""
    folder, _, name = encode_path(entry.path).rpartition(b"/")
    fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=slot.folder_fd(folder))
    try:
        if os.fstat(fd).st_size > size_bytes:
            os.ftruncate(fd, size_bytes)
    finally:
        os.close(fd)


def salvage(tree: Folder, slot: Folder, entry: FileEntry, ranges: Ranges) -> None:
    """Copy the good pieces of a named file into a slot, holes elsewhere. Raises OSError."""
    assert entry.size_bytes is not None
    folder, _, name = encode_path(entry.path).rpartition(b"/")
    source, _ = open_regular(tree.folder_fd(folder), name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        target = os.open(name, flags, 0o600, dir_fd=entered(slot, folder, 0o700))
        try:
            os.ftruncate(target, entry.size_bytes)
            at = 0
            for start, length in (*ranges, (entry.size_bytes, 0)):
                _copy(source, target, at, start)
                at = start + length
        finally:
            os.close(target)
    finally:
        os.close(source)


def discard(slot: Folder, entry: FileEntry) -> None:
    """What lies in a file's place in a slot is worth nothing. Raises OSError."""
    with contextlib.suppress(NotADirectoryError):
        remove(slot, encode_path(entry.path))


def _copy(source: int, target: int, start: int, end: int) -> None:
    while start < end:
        block = os.pread(source, min(BLOCK_BYTES, end - start), start)
        if not block:
            return
        start += os.pwrite(target, block, start)
