"""How BeeGFS stripes a file or folder, as its tools print it.

Three forms: ``beegfs-ctl --getentryinfo`` (version 7), ``beegfs entry info --retro`` and the table
of ``beegfs entry info`` (both version 8). They differ in order, indent and in the letter of the
chunk size (512k, 512K). Source: doc.beegfs.io, "Deep inspection" and "Striping".
"""

from __future__ import annotations

import re
from typing import NamedTuple

from slurm_io.errors import SlurmIoError

_SIZE = re.compile(r"(\d{1,9})([kKmMgG]?)", re.ASCII)
_POWER = {"": 0, "k": 10, "m": 20, "g": 30}
_TARGET = re.compile(r"(\d{1,9}) @ (.*) \[ID: (\w+)\]", re.ASCII)
_COUNTS = re.compile(r"desired: (\d{1,9})(?:; actual: (\d{1,9}))?", re.ASCII)
_POOL = re.compile(r"(\S+)\s+\((.*)\)")
_PATTERN = re.compile(r"(.*) \((\d{1,9})x(\w+)\)", re.ASCII)
_GAP = re.compile(r" {2,}")


class EntryInfoError(SlurmIoError):
    """The text is no entry information, or one of its numbers cannot be read."""


class EntryTarget(NamedTuple):
    """One storage target of a file."""

    number: int
    server: str
    server_number: str


class EntryInfo(NamedTuple):
    """Stripes of one entry. `targets` and `actual` are a file's: a folder only says what new files
    get. `path` is told by the table only."""

    kind: str
    entry_id: str
    pattern: str
    chunk_bytes: int
    desired: int
    actual: int | None
    targets: tuple[EntryTarget, ...]
    pool: str | None
    metadata: str | None
    path: str | None


def parse_entry_info(text: str) -> tuple[EntryInfo, ...]:
    """All entries of the text, in whichever form.

    Raises:
        EntryInfoError: nothing in it is an entry, or a number is damaged.
    """
    lines = text.splitlines()
    head = next((index for index, line in enumerate(lines) if line.startswith("PATH ")), None)
    entries = _blocks(lines) if head is None else _table(lines[head:])
    if not entries:
        raise EntryInfoError(
            "no entry information: give the output of beegfs-ctl --getentryinfo or of "
            "beegfs entry info"
        )
    return entries


def _blocks(lines: list[str]) -> tuple[EntryInfo, ...]:
    starts = [at for at, line in enumerate(lines) if line.startswith("Entry type:")]
    ends = [*starts[1:], len(lines)]
    return tuple(_block(lines[start:end]) for start, end in zip(starts, ends, strict=False))


def _block(lines: list[str]) -> EntryInfo:
    fields: dict[str, str] = {}
    targets = []
    for line in lines:
        bare = line.strip().removeprefix("+ ").strip()
        if found := _TARGET.fullmatch(bare):
            targets.append(EntryTarget(int(found[1]), found[2], found[3]))
        name, colon, value = bare.partition(":")
        if colon:
            fields.setdefault(name, value.strip())
    counts = _COUNTS.fullmatch(fields.get("Number of storage targets", ""))
    if counts is None:
        raise EntryInfoError("entry information without a number of storage targets")
    pool = _POOL.fullmatch(fields.get("Storage Pool", ""))
    return EntryInfo(
        kind=fields["Entry type"],
        entry_id=fields.get("EntryID", ""),
        pattern=fields.get("Type", ""),
        chunk_bytes=_chunk_bytes(fields.get("Chunksize", "")),
        desired=int(counts[1]),
        actual=int(counts[2]) if counts[2] else None,
        targets=tuple(targets),
        pool=pool[2] if pool else None,
        metadata=fields.get("Metadata node") or fields.get("Current primary metadata node"),
        path=None,
    )


def _table(lines: list[str]) -> tuple[EntryInfo, ...]:
    names = _GAP.split(lines[0].strip())
    rows = (_GAP.split(line.strip()) for line in lines[1:] if line.strip())
    return tuple(_row(dict(zip(names, row, strict=True))) for row in rows if len(row) == len(names))


def _row(cells: dict[str, str]) -> EntryInfo:
    pattern = _PATTERN.fullmatch(cells.get("STRIPE PATTERN", ""))
    if pattern is None:
        raise EntryInfoError("a row of the entry table without a stripe pattern")
    pool = _POOL.fullmatch(cells.get("STORAGE POOL", ""))
    return EntryInfo(
        kind=cells.get("TYPE", ""),
        entry_id=cells.get("ENTRY ID", ""),
        pattern=pattern[1],
        chunk_bytes=_chunk_bytes(pattern[3]),
        desired=int(pattern[2]),
        actual=None,
        targets=(),
        pool=pool[1] if pool else None,
        metadata=cells.get("META NODE"),
        path=cells.get("PATH"),
    )


def _chunk_bytes(text: str) -> int:
    found = _SIZE.fullmatch(text)
    if found is None:
        raise EntryInfoError(f"a chunk size that cannot be read: {text[:40]!r}")
    return int(found[1]) << _POWER[found[2].lower()]
