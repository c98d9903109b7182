"""Writing the table of a node's record; see :mod:`slurm_io.staging.verify.table` for its form."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import BinaryIO

from slurm_io.staging.verify.table import (
    ENDS_BYTES,
    HEADER,
    MAGIC,
    ROLES,
    STAMP,
    Row,
    Segment,
    TableForm,
)

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
    proofs += bytes(ROLES.index(row.entry.role) for row in rows)
    proofs += array("I", (row.verified_at_s for row in rows)).tobytes()
    if form.ends_algorithm:
        proofs += _digests((row.entry.ends for row in rows), form.ends_algorithm, ENDS_BYTES)
    if form.digest_algorithm:
        digests = (row.entry.digest for row in rows)
        proofs += _digests(digests, form.digest_algorithm, form.digest_bytes)
    lengths = (len(segment.folder), len(below), len(names), len(rows), int(segment.last))
    header = HEADER.pack(*lengths, *(zlib.crc32(part) for part in (head, stamps, proofs)))
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
