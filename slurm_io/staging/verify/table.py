"""The binary table of a node's record: per file its stamp and what was proved, at stat speed.

Grouped by folder in segments of at most 8192 files, so that a reader needs one segment in memory.
A segment is a header, then three parts, each with its CRC-32::

    names    folder, names of the subfolders that hold files, names of the files (NUL between)
    stamps   inode, size, mtime_ns, ctime_ns of each file (4 x 64 bit, little endian)
    proofs   level (u8), role (u8), verified at (u32, seconds) of each file, then its digest of both
             ends (16 B) and of the whole (`digest_bytes`), as far as the table's algorithms fit

Standard library only: the prolog reads it.
"""

from __future__ import annotations

import os
import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from slurm_io.errors import HostError
from slurm_io.staging.manifest.model import FileEntry, Role
from slurm_io.staging.manifest.paths import decode_path

MAGIC = b"SIOFILE1"
SEGMENT_FILES = 8192
STAMP = struct.Struct("<QQqq")
ENDS_BYTES = 16
KNOWN_BAD = 255
"""Level of a file that was bad when it was last verified; its stamp is all zeros."""
Stamp = tuple[int, int, int, int]
HEADER = struct.Struct("<8I")
"""Bytes of folder, subfolders and names; files; last; three CRCs."""
ROLES: tuple[Role, ...] = ("data", "index", "metadata")
_LARGEST_PART = 1 << 28


class TableDamaged(HostError):
    """The table is not what its writer left: a record built on it proves nothing."""


class TableForm(NamedTuple):
    """How the table is to be read: kept in record.json beside it."""

    file: str
    size_bytes: int
    files: int
    ends_algorithm: str | None = None
    digest_algorithm: str | None = None
    digest_bytes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return self._asdict()


class Segment(NamedTuple):
    """Files of one folder, in the order of their names' bytes.

    `first` is the index of the first file in the whole. `stamps` are None where only sizes are
    known. `last`: the folder has no further segment. `folder` is b"" for the root.
    """

    folder: bytes
    first: int
    names: Sequence[bytes]
    sizes: Sequence[int | None]
    stamps: Iterable[Stamp] | None
    subfolders: Sequence[bytes]
    last: bool


class Row(NamedTuple):
    """What the table keeps for one file."""

    entry: FileEntry
    stamp: Stamp
    level: int
    verified_at_s: int


class Table:
    """An open table. Reads go by position, so that one descriptor serves all readers."""

    def __init__(self, descriptor: int, form: TableForm) -> None:
        self._descriptor = descriptor
        self.form = form
        size = os.fstat(descriptor).st_size
        if size != form.size_bytes or os.pread(descriptor, len(MAGIC), 0) != MAGIC:
            raise TableDamaged(
                f"table {form.file}: {size} bytes, not the {form.size_bytes} written"
            )

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)

    @property
    def count(self) -> int:
        """Files in the table."""
        return self.form.files

    def segments(self) -> Iterator[Segment]:
        """All segments with their stamps; at most one is in memory. Raises TableDamaged."""
        for position, header, first in self._headers():
            folder, subfolders, names = self._names(position, header)
            raw = self._part(position + _names_bytes(header), header[3] * STAMP.size, header[6])
            yield Segment(
                folder=folder,
                first=first,
                names=names,
                sizes=_Sizes(raw),
                stamps=STAMP.iter_unpack(raw),
                subfolders=subfolders,
                last=bool(header[4]),
            )

    def levels(self) -> Iterator[tuple[int, bytes, array[int]]]:
        """(first index, levels, verified at) of each segment."""
        for position, header, first in self._headers():
            count = header[3]
            raw = self._proofs(position, header)
            yield first, raw[:count], array("I", raw[2 * count : 6 * count])

    def indices_of_roles(self) -> list[int]:
        """Files that are index or metadata."""
        found: list[int] = []
        for position, header, first in self._headers():
            count = header[3]
            roles = self._proofs(position, header)[count : 2 * count]
            if any(roles):
                found += [first + i for i, role in enumerate(roles) if role]
        return found

    def rows(self, indices: Iterable[int]) -> Iterator[tuple[int, Row]]:
        """The rows of ascending `indices`; segments without any of them are skipped unread."""
        wanted = iter(indices)
        index = next(wanted, None)
        for position, header, first in self._headers():
            count = header[3]
            if index is None:
                return
            if index >= first + count:
                continue
            folder, _, names = self._names(position, header)
            stamps_at = position + _names_bytes(header)
            stamps = self._part(stamps_at, count * STAMP.size, header[6])
            proofs = self._proofs(position, header)
            while index is not None and index < first + count:
                yield index, self._row(folder, names, stamps, proofs, index - first, count)
                index = next(wanted, None)

    def _row(
        self, folder: bytes, names: Sequence[bytes], stamps: bytes, proofs: bytes, i: int, n: int
    ) -> Row:
        stamp: Stamp = STAMP.unpack_from(stamps, i * STAMP.size)
        (verified,) = struct.unpack_from("<I", proofs, 2 * n + 4 * i)
        at = 6 * n
        ends, at = self._digest(proofs, at, i, n, self.form.ends_algorithm, ENDS_BYTES)
        width = self.form.digest_bytes
        digest, _ = self._digest(proofs, at, i, n, self.form.digest_algorithm, width)
        path = decode_path(folder + b"/" + names[i] if folder else names[i])
        role = ROLES[min(proofs[n + i], 2)]
        return Row(FileEntry(path, stamp[1], digest, ends, role=role), stamp, proofs[i], verified)

    @staticmethod
    def _digest(
        proofs: bytes, at: int, i: int, n: int, algorithm: str | None, width: int
    ) -> tuple[str | None, int]:
        """One digest (all zeros = none) and where the next column starts."""
        if algorithm is None:
            return None, at
        raw = proofs[at + i * width : at + (i + 1) * width]
        return (f"{algorithm}:{raw.hex()}" if any(raw) else None), at + n * width

    def _headers(self) -> Iterator[tuple[int, tuple[int, ...], int]]:
        """(position behind the header, header, index of the first file) of each segment."""
        position, first = len(MAGIC), 0
        while position < self.form.size_bytes:
            raw = os.pread(self._descriptor, HEADER.size + 4, position)
            if len(raw) != HEADER.size + 4 or zlib.crc32(raw[:-4]) != int.from_bytes(
                raw[-4:], "little"
            ):
                raise TableDamaged(f"table {self.form.file}: damaged at byte {position}")
            header = HEADER.unpack(raw[:-4])
            position += len(raw)
            yield position, header, first
            count = header[3]
            position += _names_bytes(header) + count * STAMP.size + self._proof_bytes(count)
            first += count
        if first != self.form.files:
            raise TableDamaged(f"table {self.form.file}: {first} files, not {self.form.files}")

    def _names(
        self, position: int, header: tuple[int, ...]
    ) -> tuple[bytes, list[bytes], list[bytes]]:
        raw = self._part(position, _names_bytes(header), header[5])
        folder, below = raw[: header[0]], raw[header[0] : header[0] + header[1]]
        names = _split(raw[header[0] + header[1] :])
        if len(names) != header[3]:
            raise TableDamaged(f"table {self.form.file}: damaged names in {folder!r}")
        return folder, _split(below), names

    def _proofs(self, position: int, header: tuple[int, ...]) -> bytes:
        at = position + _names_bytes(header) + header[3] * STAMP.size
        return self._part(at, self._proof_bytes(header[3]), header[7])

    def _proof_bytes(self, count: int) -> int:
        width = 6 + (ENDS_BYTES if self.form.ends_algorithm else 0)
        return count * (width + (self.form.digest_bytes if self.form.digest_algorithm else 0))

    def _part(self, position: int, length: int, crc: int) -> bytes:
        raw = os.pread(self._descriptor, min(length, _LARGEST_PART), position)
        if len(raw) != length or zlib.crc32(raw) != crc:
            raise TableDamaged(f"table {self.form.file}: damaged at byte {position}")
        return raw


class _Sizes(Sequence[int | None]):
    """Sizes out of raw stamps, unpacked only where somebody looks."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def __len__(self) -> int:
        return len(self._raw) // STAMP.size

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return STAMP.unpack_from(self._raw, index * STAMP.size)[1]


def _names_bytes(header: tuple[int, ...]) -> int:
    return header[0] + header[1] + header[2]


def _split(joined: bytes) -> list[bytes]:
    return joined.split(b"\0") if joined else []
