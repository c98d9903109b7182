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
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, BinaryIO, NamedTuple

from slurm_io.errors import HostError
from slurm_io.staging.manifest.model import FileEntry, Role
from slurm_io.staging.manifest.paths import decode_path, printable

MAGIC = b"SIOFILE1"
SEGMENT_FILES = 8192
STAMP = struct.Struct("<QQqq")
ENDS_BYTES = 16
KNOWN_BAD = 255
"""Level of a file that was bad when it was last verified; its stamp is all zeros."""
Stamp = tuple[int, int, int, int]

_HEADER = struct.Struct("<8I")  # folder, subfolders, names: bytes; files; last; three CRCs
_ROLES: tuple[Role, ...] = ("data", "index", "metadata")
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
        role = _ROLES[min(proofs[n + i], 2)]
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
            raw = os.pread(self._descriptor, _HEADER.size + 4, position)
            if len(raw) != _HEADER.size + 4 or zlib.crc32(raw[:-4]) != int.from_bytes(
                raw[-4:], "little"
            ):
                raise TableDamaged(f"table {self.form.file}: damaged at byte {position}")
            header = _HEADER.unpack(raw[:-4])
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


RowsOf = Callable[[int, int], Sequence[Row]]
"""(first index, count) -> these rows."""


def write_table(
    out: BinaryIO, file: str, count: int, rows_of: RowsOf, segments: Iterable[Segment]
) -> TableForm:
    """Write `count` rows, numbered and grouped by folder as `segments` are; no fsync."""
    first_rows = rows_of(0, min(count, 1000))
    ends_algorithm, _ = _commonest((row.entry.ends for row in first_rows), ENDS_BYTES)
    digest_algorithm, width = _commonest(row.entry.digest for row in first_rows)
    form = TableForm(file, 0, count, ends_algorithm, digest_algorithm, width)
    size = out.write(MAGIC)
    for segment in segments:
        rows = rows_of(segment.first, len(segment.names))
        for part in _encoded(segment, rows, form):
            size += out.write(part)
    return form._replace(size_bytes=size)


def _encoded(segment: Segment, rows: Sequence[Row], form: TableForm) -> tuple[bytes, ...]:
    below, names = b"\0".join(segment.subfolders), b"\0".join(segment.names)
    head = segment.folder + below + names
    stamps = b"".join(STAMP.pack(*row.stamp) for row in rows)
    proofs = bytes(row.level for row in rows)
    proofs += bytes(_ROLES.index(row.entry.role) for row in rows)
    proofs += array("I", (row.verified_at_s for row in rows)).tobytes()
    if form.ends_algorithm:
        proofs += _digests((row.entry.ends for row in rows), form.ends_algorithm, ENDS_BYTES)
    if form.digest_algorithm:
        digests = (row.entry.digest for row in rows)
        proofs += _digests(digests, form.digest_algorithm, form.digest_bytes)
    lengths = (len(segment.folder), len(below), len(names), len(rows), int(segment.last))
    header = _HEADER.pack(*lengths, *(zlib.crc32(part) for part in (head, stamps, proofs)))
    return header + zlib.crc32(header).to_bytes(4, "little"), head, stamps, proofs


def _digests(digests: Iterable[str | None], algorithm: str, width: int) -> bytes:
    """A column: raw digests, zeros where there is none of this algorithm and width."""
    column = bytearray()
    for digest in digests:
        name, _, text = (digest or "").partition(":")
        fits = name == algorithm and len(text) == 2 * width
        column += bytes.fromhex(text) if fits else bytes(width)
    return bytes(column)


def _commonest(digests: Iterable[str | None], only: int | None = None) -> tuple[str | None, int]:
    """Algorithm and width in bytes of most of the digests (of width `only`); (None, 0) for none."""
    counts: dict[tuple[str, int], int] = {}
    for digest in digests:
        name, _, text = (digest or "").partition(":")
        if text and only in (None, len(text) // 2):
            counts[name, len(text) // 2] = counts.get((name, len(text) // 2), 0) + 1
    return max(counts, key=counts.__getitem__) if counts else (None, 0)


def _names_bytes(header: tuple[int, ...]) -> int:
    return header[0] + header[1] + header[2]


def _split(joined: bytes) -> list[bytes]:
    return joined.split(b"\0") if joined else []


def group(paths: Iterable[bytes]) -> dict[bytes, tuple[list[int], set[bytes]]]:
    """Folder -> (indices of its files, names of its subfolders that hold files), parents first.

    `paths` are relative; a path that is absolute, empty or has an empty, ``.`` or ``..`` component
    raises ValueError.
    """
    folders: dict[bytes, tuple[list[int], set[bytes]]] = {b"": ([], set())}
    for index, path in enumerate(paths):
        folder, _, name = path.rpartition(b"/")
        if folder not in folders:
            _add_parents(folders, folder)
        if not is_component(name) or path[:1] == b"/":
            raise ValueError(f"{printable(decode_path(path))} is no path below a dataset's folder")
        folders[folder][0].append(index)
    return dict(sorted(folders.items(), key=lambda item: item[0].split(b"/")))


def is_component(name: bytes) -> bool:
    """Whether this is one plain component of a path."""
    return bool(name) and name not in (b".", b"..") and b"\0" not in name and b"/" not in name


def _add_parents(folders: dict[bytes, tuple[list[int], set[bytes]]], folder: bytes) -> None:
    parts = folder.split(b"/")
    if not all(map(is_component, parts)):
        raise ValueError(f"{printable(decode_path(folder))} is no path below a dataset's folder")
    paths = [b"/".join(parts[:depth]) for depth in range(len(parts) + 1)]
    for parent, child in pairwise(paths):
        folders.setdefault(child, ([], set()))
        folders[parent][1].add(child.rpartition(b"/")[2])
