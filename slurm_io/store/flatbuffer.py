"""Just enough FlatBuffers to find a number inside an Arrow IPC message, bounds-checked.

A table starts with a signed offset back to its vtable: u16 vtable size, u16 table size, then one
u16 for each field, the field's place within the table (0 = left out). Hostile bytes raise
:class:`FlatbufferError`, nothing else.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

CONTINUATION = b"\xff\xff\xff\xff"


class FlatbufferError(ValueError):
    """The bytes are no valid message."""


def _read(code: str, data: bytes | bytearray, at: int) -> int:
    if at < 0:
        raise FlatbufferError("an offset points before the message")
    try:
        return int(struct.unpack_from(code, data, at)[0])
    except struct.error as exc:
        raise FlatbufferError("an offset points past the message") from exc


def message_length(data: bytes | bytearray, at: int) -> int:
    """Bytes of the encapsulated message's prefix and metadata at `at`, its body not included."""
    if data[at : at + 4] != CONTINUATION:
        raise FlatbufferError("no message starts here")
    return 8 + _read("<i", data, at + 4)


@dataclass(frozen=True)
class FlatTable:
    """One table inside `data`, which starts at `start`."""

    data: bytes | bytearray
    start: int

    @classmethod
    def root(cls, data: bytes | bytearray, base: int) -> FlatTable:
        """The root table of a flatbuffer that begins at `base`."""
        return cls(data, base + _read("<I", data, base))

    def find(self, field: int) -> int | None:
        """Where `field` (number in the .fbs file) lies in the data; None when left out."""
        vtable = self.start - _read("<i", self.data, self.start)
        slot = 4 + 2 * field
        if slot + 2 > _read("<H", self.data, vtable):
            return None
        relative = _read("<H", self.data, vtable + slot)
        return self.start + relative if relative else None

    def place(self, field: int) -> int:
        """As :meth:`find`, for a field that must be there."""
        at = self.find(field)
        if at is None:
            raise FlatbufferError(f"field {field} is missing")
        return at

    def table(self, field: int) -> FlatTable:
        """The table `field` refers to."""
        at = self.place(field)
        return FlatTable(self.data, at + _read("<I", self.data, at))

    def int64(self, field: int) -> int:
        """Value of a 64-bit number; 0 (FlatBuffers' default) when left out."""
        at = self.find(field)
        return 0 if at is None else _read("<q", self.data, at)

    def uint8(self, field: int) -> int:
        """Value of a byte; 0 when left out."""
        at = self.find(field)
        return 0 if at is None else _read("<B", self.data, at)


def vector_start(table: FlatTable, field: int) -> tuple[int, int]:
    """Place of the first element and number of elements of the vector `field`."""
    at = table.place(field)
    vector = at + _read("<I", table.data, at)
    return vector + 4, _read("<I", table.data, vector)
