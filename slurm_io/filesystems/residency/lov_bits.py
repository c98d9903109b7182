"""The one thing residency needs of a Lustre layout: which parts of the file are released.

Reads the value of the ``lustre.lov`` attribute (struct lov_user_md_v1/v3, lov_comp_md_v1 of
uapi/linux/lustre/lustre_user.h). The whole layout is read in :mod:`slurm_io.filesystems.layout`.
"""

from __future__ import annotations

import struct

_PLAIN_MAGICS = {0x0BD10BD0: 32, 0x0BD30BD0: 48}  # -> bytes before the objects
_OBJECT_BYTES = 24
_COMPOSITE_MAGICS = (0x0BD60BD0, 0x0BD80BD0)
_RELEASED, _ON_METADATA_SERVER = 0x80000000, 0x100
_STALE, _INIT, _EXTENSION, _PARITY = 0x1, 0x10, 0x40, 0x80
_HEAD_BYTES = 32
_ENTRY_BYTES = 48
_KNOWN_PATTERNS = _RELEASED | 0x40000000 | 0x1 | 0x2 | 0x100 | 0x200 | 0x800


def released_bytes(lov: bytes, size_bytes: int) -> int | None:
    """How many of a file's bytes only the archive holds; None when the layout cannot be read.

    With mirrors it is the one with most bytes here that counts: a client may read any of them.
    """
    order = _byte_order(lov)
    if order is None:
        return None
    (magic,) = struct.unpack_from(f"{order}I", lov)
    if magic in _PLAIN_MAGICS:
        released = _is_released(order, lov)
        return None if released is None else size_bytes * released
    return _of_components(order, lov, size_bytes) if magic in _COMPOSITE_MAGICS else None


def _of_components(order: str, lov: bytes, size_bytes: int) -> int | None:
    declared_bytes, _, _, entries, _ = struct.unpack_from(f"{order}IIHHH", lov, 4)
    if declared_bytes > len(lov) or _HEAD_BYTES + entries * _ENTRY_BYTES > len(lov) or not entries:
        return None
    away_of_mirror: dict[int, int] = {}
    for number in range(entries):
        fields = struct.unpack_from(f"{order}IIQQII", lov, _HEAD_BYTES + number * _ENTRY_BYTES)
        entry_id, flags, start, end, offset, length_bytes = fields
        if not flags & _INIT or flags & (_STALE | _EXTENSION | _PARITY):
            continue
        if offset + length_bytes > len(lov):
            return None
        released = _is_released(order, lov[offset : offset + length_bytes])
        if released is None:
            return None
        extent_bytes = max(0, min(end, size_bytes) - start)
        mirror = entry_id >> 16
        away_of_mirror[mirror] = away_of_mirror.get(mirror, 0) + extent_bytes * released
    return min(min(away_of_mirror.values(), default=0), size_bytes)


def _is_released(order: str, lov: bytes) -> bool | None:
    if len(lov) < _HEAD_BYTES:
        return None
    magic, pattern = struct.unpack_from(f"{order}II", lov)
    if magic not in _PLAIN_MAGICS or pattern & ~_KNOWN_PATTERNS:
        return None
    if pattern & _RELEASED:
        return True  # the count of stripes is kept, but no objects follow
    (stripes,) = struct.unpack_from(f"{order}H", lov, 28)
    if not stripes and not pattern & _ON_METADATA_SERVER:
        return None  # a folder's default, not a file's layout
    whole_bytes = _PLAIN_MAGICS[magic] + stripes * _OBJECT_BYTES
    return False if len(lov) >= whole_bytes else None


def _byte_order(lov: bytes) -> str | None:
    """Stored little-endian; a client of the other order may have converted it."""
    if len(lov) < _HEAD_BYTES:
        return None
    return {b"\xd0\x0b": "<", b"\x0b\xd0": ">"}.get(lov[:2] if lov[:1] == b"\xd0" else lov[2:4])
