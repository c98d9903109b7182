"""Columns of Python values to Arrow buffers; standard library only, built for speed.

The resident sampler writes some 200 columns every two seconds, so a column costs a few
microseconds: one :func:`struct.pack` of the whole column. Nulls make that call fail, which is dear,
so each column remembers whether its last batch had some and then looks for them first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

Encoded = tuple[int, tuple[bytes, ...]]
"""null count, and the buffers of the column in Arrow's order; an empty bitmap = no nulls."""
Values = Sequence[Any]
Encoder = Callable[[Values, int], Encoded]
_Pack = Callable[[Values, int], tuple[bytes, ...]]

_BIT_DIGITS = bytes.maketrans(b"\x00\x01", b"01")
_CANNOT_PACK = (struct.error, TypeError, ValueError, OverflowError)


class CellError(ValueError):
    """A value does not fit its column's type."""


def encoder(column_type: str, nullable: bool = True) -> Encoder:
    """A new encoder for one column of one stream.

    It takes the column's values (None = null) and their number, and raises :class:`CellError`
    when a value does not fit the type or is null where null is not allowed.
    """
    pack, filler = _PACKERS[column_type]
    had_nulls = False

    def encode(values: Values, count: int) -> Encoded:
        nonlocal had_nulls
        if not had_nulls:
            try:
                return 0, (b"", *pack(values, count))
            except _CANNOT_PACK:
                pass
        nulls = values.count(None)
        had_nulls = nulls > 0
        if nulls and not nullable:
            raise CellError("a null in a column that has none")
        try:
            if nulls == 0:
                return 0, (b"", *pack(values, count))
            if nulls == count:
                filled: Values = (filler,) * count
            else:
                filled = [filler if value is None else value for value in values]
            return nulls, (_validity(values, nulls), *pack(filled, count))
        except _CANNOT_PACK as exc:
            raise CellError(str(exc)) from exc

    return encode


def bitmap(flags: bytes) -> bytes:
    """Bytes of 0 and 1 to a bitmap, least significant bit first."""
    digits = flags[::-1].translate(_BIT_DIGITS)
    return int(digits, 2).to_bytes((len(flags) + 7) >> 3, "little")


def _validity(values: Values, nulls: int) -> bytes:
    if nulls == len(values):
        return bytes((nulls + 7) >> 3)
    return bitmap(bytes([value is not None for value in values]))


def _number_packer(code: str) -> _Pack:
    """For one fixed-width type; `code` is struct's letter for it."""

    def pack(values: Values, count: int) -> tuple[bytes, ...]:
        return (struct.pack(f"<{count}{code}", *values),)

    return pack


def _pack_text(values: Values, count: int) -> tuple[bytes, ...]:
    """Offsets and bytes. Names from /proc may hold undecodable bytes: they show as ``\\udc…``."""
    joined = "".join(values)
    if joined.isascii():
        ends, data = accumulate(map(len, values), initial=0), joined.encode()
    else:
        parts = [value.encode("utf-8", "backslashreplace") for value in values]
        ends, data = accumulate(map(len, parts), initial=0), b"".join(parts)
    return struct.pack(f"<{count + 1}i", *ends), data


def _pack_flags(values: Values, count: int) -> tuple[bytes, ...]:
    return (bitmap(bytes(values)),)


_PACKERS: dict[str, tuple[_Pack, object]] = {
    "int64": (_number_packer("q"), 0),
    "int32": (_number_packer("i"), 0),
    "float64": (_number_packer("d"), 0.0),
    "float32": (_number_packer("f"), 0.0),
    "string": (_pack_text, ""),
    "bool": (_pack_flags, False),
}
