"""The header of a Parquet manifest without pyarrow: the key-value pairs of the file's footer.

The last 8 bytes are the footer's length (u32, little endian) and ``PAR1``; the footer is
``FileMetaData`` in Thrift's compact protocol, of which field 5 is a list of (1 key, 2 value).
All else is skipped. Standard library only: the prolog reads a header this way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.jsonl import open_regular, parse_line
from slurm_io.staging.manifest.model import Header
from slurm_io.staging.manifest.paths import printable
from slurm_io.staging.manifest.rows import MAX_LINE_BYTES, header_of

HEADER_KEY = b"slurm_io.manifest"
MAX_FOOTER_BYTES = 64 << 20
_MAX_DEPTH = 16
_KEY_VALUES = 5
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(
    13
)


def read_header(path: str) -> Header:
    """The header of a Parquet manifest. Raises ManifestError."""
    fd = open_regular(path)
    try:
        footer = _footer(fd)
        value = _Compact(footer).key_values().get(HEADER_KEY)
        if value is None or len(value) > MAX_LINE_BYTES:
            raise ManifestError("is a Parquet file, but no manifest of slurm_io")
        return header_of(parse_line(value))
    except (ManifestError, OSError) as error:
        raise ManifestError(f"{printable(path)}: {error}") from None
    finally:
        os.close(fd)


def _footer(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    tail = os.pread(fd, 8, max(0, size - 8))
    length = int.from_bytes(tail[:4], "little")
    if size < 16 or tail[4:] != b"PAR1" or length > min(size - 12, MAX_FOOTER_BYTES):
        raise ManifestError("is a truncated or damaged Parquet file; copy it again")
    return os.pread(fd, length, size - 8 - length)


class _Compact:
    """As much of Thrift's compact protocol as finding one field needs."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def key_values(self) -> dict[bytes, bytes]:
        """Field 5 of the outermost struct."""
        found: dict[bytes, bytes] = {}
        try:
            for field, kind in self._fields():
                if field == _KEY_VALUES and kind == _LIST:
                    count, _ = self._list_head()
                    for _ in range(count):
                        key, value = self._key_value()
                        found[key] = value
                else:
                    self._skip(kind, 0)
        except IndexError:
            raise ManifestError("its Parquet footer is damaged; copy it again") from None
        return found

    def _key_value(self) -> tuple[bytes, bytes]:
        values = {1: b"", 2: b""}
        for field, kind in self._fields():
            if kind == _BINARY and field in values:
                values[field] = self._binary()
            else:
                self._skip(kind, 1)
        return values[1], values[2]

    def _fields(self) -> Iterator[tuple[int, int]]:
        """(field id, type) of a struct's fields; the caller takes each value."""
        field = 0
        while kind := self._byte():
            delta = kind >> 4
            field = field + delta if delta else self._zigzag()
            yield field, kind & 15

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise ManifestError("its Parquet footer is nested too deeply")
        if kind in (_TRUE, _FALSE):
            return
        if kind in (_I16, _I32, _I64):
            self._varint()
        elif kind in (_BYTE, _DOUBLE):
            self._take(8 if kind == _DOUBLE else 1)
        elif kind == _BINARY:
            self._binary()
        elif kind in (_LIST, _SET):
            count, inner = self._list_head()
            for _ in range(count):
                self._skip_item(inner, depth)
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        else:
            raise ManifestError("its Parquet footer holds a type no footer has")

    def _skip_item(self, kind: int, depth: int) -> None:
        """Inside lists a truth value takes a byte."""
        if kind in (_TRUE, _FALSE):
            self._take(1)
        else:
            self._skip(kind, depth + 1)

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4
        if count == 15:
            count = self._varint()
        if count > len(self._data):
            raise IndexError
        return count, head & 15

    def _binary(self) -> bytes:
        return self._take(self._varint())

    def _take(self, length: int) -> bytes:
        part = self._data[self._at : self._at + length]
        if len(part) != length:
            raise IndexError
        self._at += length
        return part

    def _byte(self) -> int:
        value = self._data[self._at]
        self._at += 1
        return value

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ManifestError("its Parquet footer is damaged; copy it again")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
