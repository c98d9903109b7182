"""Does a zip archive end as it should? Reads its last 64 KiB and two short records, no entry.

``torch.save`` writes a zip whose table of contents comes last, so an archive that was cut short or
whose end was never written has none. Layout: PKWARE's APPNOTE, 4.3.12 to 4.3.16; torch always adds
the records for files beyond 4 GiB.
"""

from __future__ import annotations

import os
import struct

from slurm_io.staging.beneath import read_at

START = b"PK\x03\x04"
_END, _CONTENTS = b"PK\x05\x06", b"PK\x01\x02"
_WIDE_END, _LOCATOR = b"PK\x06\x06", b"PK\x06\x07"
_END_BYTES, _LOCATOR_BYTES, _WIDE_BYTES = 22, 20, 56
_MOST_COMMENT = 65535


def what_is_wrong(fd: int) -> str | None:
    """In words, of the open archive; None when its end is sound. Raises OSError."""
    size = os.fstat(fd).st_size
    if read_at(fd, 0, len(START)) != START:
        return "its beginning is no archive's"
    tail_at = max(0, size - _END_BYTES - _MOST_COMMENT)
    tail = read_at(fd, tail_at, size - tail_at)
    place = _end_in(tail)
    if place is None:
        zeros = bool(tail) and not any(tail[-_END_BYTES:])
        return "its end is zeros" if zeros else "the end of the archive is missing: cut short"
    entries, length, offset = struct.unpack_from("<HII", tail, place + 10)
    ends_at = tail_at + place
    locator = tail[max(0, place - _LOCATOR_BYTES) : place]
    if locator.startswith(_LOCATOR):
        (ends_at,) = struct.unpack_from("<Q", locator, 8)
        record = read_at(fd, ends_at, _WIDE_BYTES) if ends_at < size else b""
        if len(record) < _WIDE_BYTES or not record.startswith(_WIDE_END):
            return "its table of contents cannot be found"
        entries, length, offset = struct.unpack_from("<QQQ", record, 32)
    if offset + length != ends_at:
        return "its table of contents does not lie before its end"
    if entries and read_at(fd, offset, len(_CONTENTS)) != _CONTENTS:
        return "its table of contents is damaged"
    return None


def _end_in(tail: bytes) -> int | None:
    """Where the last record begins: the one whose comment reaches exactly to the end."""
    place = tail.rfind(_END)
    while place >= 0:
        if len(tail) - place >= _END_BYTES:
            (comment,) = struct.unpack_from("<H", tail, place + 20)
            if place + _END_BYTES + comment == len(tail):
                return place
        place = tail.rfind(_END, 0, place)
    return None
