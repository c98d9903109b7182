"""Which files a level 4 has already proven, so that one cut short goes on where it stopped.

A header that names the version and the folder, then 44 bytes a file: its number, its stamp and a
CRC-32 of both. A file counts only while it still has that stamp; a torn end costs one entry.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from types import TracebackType
from typing import Self

from slurm_io.staging.verify.table import Stamp

MAGIC = b"SIOHASH2"
OLDEST_S = 14 * 86400.0
"""What was proven longer ago is hashed again."""
FILE_NAME = "journal.bin"
_HEADER = struct.Struct("<8s48sQQ")
_ENTRY = struct.Struct("<QQQqqI")
_PROVEN = struct.Struct("<QQQqq")


class Journal:
    """An open journal; its caller holds the record's lock."""

    def __init__(self, folder: int, content_id: str, root_inode: int) -> None:
        """`folder`: descriptor of the record's folder. Raises OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._folder = folder
        self._descriptor = os.open(FILE_NAME, flags, 0o644, dir_fd=folder)
        self._known: dict[int, Stamp] = {}
        wanted = _wanted(content_id, root_inode)
        if not self._load(wanted):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, _HEADER.pack(*wanted, int(time.time())), 0)
        self._position = _HEADER.size + len(self._known) * _ENTRY.size
        os.ftruncate(self._descriptor, self._position)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)

    def __len__(self) -> int:
        return len(self._known)

    def has(self, index: int, stamp: Stamp) -> bool:
        """Whether this very state of a file was proven."""
        return self._known.get(index) == stamp

    def add(self, index: int, stamp: Stamp) -> None:
        """A file was proven."""
        entry = _packed(index, stamp)
        if os.pwrite(self._descriptor, entry, self._position) == len(entry):
            self._position += len(entry)

    def remove(self) -> None:
        """All files were hashed: the record knows more."""
        os.unlink(FILE_NAME, dir_fd=self._folder)

    def _load(self, wanted: tuple[bytes, bytes, int]) -> bool:
        raw = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
        found = parse(raw, wanted)
        if found is None:
            return False
        started_s, self._known = found
        whole = (len(raw) - _HEADER.size) // _ENTRY.size * _ENTRY.size
        return len(self._known) * _ENTRY.size == whole or self._rewrite(wanted, started_s)

    def _rewrite(self, wanted: tuple[bytes, bytes, int], started_s: int) -> bool:
        """A file hashed twice (it had changed) has two entries: keep the last."""
        entries = b"".join(_packed(i, stamp) for i, stamp in self._known.items())
        os.pwrite(self._descriptor, _HEADER.pack(*wanted, started_s) + entries, 0)
        return True


def known_of(folder: int, content_id: str, root_inode: int) -> dict[int, Stamp]:
    """What a journal says, without changing it; {} when there is none for this."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(FILE_NAME, flags, dir_fd=folder)
    except OSError:
        return {}
    try:
        raw = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)
    found = parse(raw, _wanted(content_id, root_inode))
    return {} if found is None else found[1]


def parse(raw: bytes, wanted: tuple[bytes, bytes, int]) -> tuple[int, dict[int, Stamp]] | None:
    """(when it was begun, number -> stamp); None for another journal, or one that is too old."""
    if len(raw) < _HEADER.size:
        return None
    *found, started_s = _HEADER.unpack_from(raw)
    if tuple(found) != wanted or not 0 <= time.time() - started_s <= OLDEST_S:
        return None
    known: dict[int, Stamp] = {}
    for at in range(_HEADER.size, len(raw) - _ENTRY.size + 1, _ENTRY.size):
        index, inode, size, mtime_ns, ctime_ns, crc = _ENTRY.unpack_from(raw, at)
        if zlib.crc32(raw[at : at + _PROVEN.size]) == crc:
            known[index] = inode, size, mtime_ns, ctime_ns
    return started_s, known


def _wanted(content_id: str, root_inode: int) -> tuple[bytes, bytes, int]:
    return MAGIC, content_id.encode()[:48].ljust(48, b"\0"), root_inode


def _packed(index: int, stamp: Stamp) -> bytes:
    proven = _PROVEN.pack(index, *stamp)
    return proven + zlib.crc32(proven).to_bytes(4, "little")
