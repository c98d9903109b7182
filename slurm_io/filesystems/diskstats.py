"""Parser of /proc/diskstats and of one device's /sys/block/DEV/stat.

Line shapes, major, minor and name included: 7 columns (partitions before 2.6.25), 14, 18 (discards,
from 4.18), 20 (flushes, from 5.5). 15 to 17 columns count as 14, 19 as 18; what stands behind the
20th is ignored. Sectors are 512 bytes whatever the device's own block size::

     259       0 nvme0n1 141175 1 5699664 20780 240671 168373 9314156 158048 0 8492 35540
"""

from __future__ import annotations

from typing import NamedTuple

SECTOR_BYTES = 512


class DiskCounters(NamedTuple):
    """Counters of one device since it appeared; None where the kernel's line has no such column.

    A NamedTuple, not a dataclass: one is made for each busy device in every tick. Milliseconds are
    unsigned 32-bit numbers and wrap; counts and sectors are 64-bit and never do.
    """

    read_ios: int
    read_merges: int | None
    read_sectors: int
    read_ms: int | None
    write_ios: int
    write_merges: int | None
    write_sectors: int
    write_ms: int | None
    inflight: int | None
    io_ms: int | None
    weighted_ms: int | None
    discard_ios: int | None = None
    discard_merges: int | None = None
    discard_sectors: int | None = None
    discard_ms: int | None = None
    flush_ios: int | None = None
    flush_ms: int | None = None

    @property
    def read_bytes(self) -> int:
        """Bytes read since the device appeared."""
        return self.read_sectors * SECTOR_BYTES

    @property
    def write_bytes(self) -> int:
        """Bytes written since the device appeared."""
        return self.write_sectors * SECTOR_BYTES


class DiskLine(NamedTuple):
    """One line of /proc/diskstats. `major_minor` may repeat and is 0:0 for NVMe paths: the name is
    the key."""

    major_minor: str
    name: str
    counters: DiskCounters


def parse_diskstats(text: str) -> tuple[DiskLine, ...]:
    """All lines that are device lines; a name that comes twice keeps its first line."""
    found: dict[str, DiskLine] = {}
    for line in text.splitlines():
        parsed = parse_line(line)
        if parsed is not None:
            found.setdefault(parsed.name, parsed)
    return tuple(found.values())


def parse_line(line: str) -> DiskLine | None:
    """One line, or None when it has not the shape of one (prose, the /proc/partitions form)."""
    fields = line.split()
    if len(fields) < 7 or fields[2].isdigit():
        return None
    try:
        counters = counters_of(fields[3:])
        major, minor = int(fields[0]), int(fields[1])
    except ValueError:
        return None
    return DiskLine(f"{major}:{minor}", fields[2], counters) if counters is not None else None


def parse_stat(text: str) -> DiskCounters | None:
    """A sysfs ``stat`` file: the same numbers without major, minor and name."""
    return counters_of(text.split())


def counters_of(fields: list[str] | list[bytes]) -> DiskCounters | None:
    """Counters from the columns behind the name; None for a count of columns no kernel prints.

    Raises:
        ValueError: a column is no number.
    """
    count = len(fields)
    if count == 4:
        reads, read_sectors, writes, write_sectors = map(int, fields)
        return DiskCounters(
            reads, None, read_sectors, None, writes, None, write_sectors, None, None, None, None
        )
    if count < 11:
        return None
    used = 11 if count < 15 else 15 if count < 17 else 17
    return DiskCounters(*map(int, fields[:used]))
