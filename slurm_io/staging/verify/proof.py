"""What a verify saw of each file, kept compactly (41 bytes a file) for the node's record."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence

from slurm_io.staging.manifest.hashing import TICK_NS
from slurm_io.staging.verify.expected import FromBoth, FromManifest
from slurm_io.staging.verify.table import KNOWN_BAD, STAMP, Row, Stamp, Table


class Proof:
    """Stamps and levels by file number. Nothing is proven of a file never seen."""

    def __init__(self, expected: FromManifest | FromBoth, old: Table | None) -> None:
        """`old`: the record's table of the same version, whose levels stay where nothing moved."""
        # A change within the clock's tick would not show in a time stamp: let the last one pass.
        time.sleep(TICK_NS / 1e9)
        self.started_ns = time.time_ns()
        self.manifest = expected if isinstance(expected, FromManifest) else expected.manifest
        count = expected.count
        self._stamps = bytearray(count * STAMP.size)
        self._levels = bytearray(count)
        self._verified = array("I", bytes(4 * count))
        self._now_s = self.started_ns // 10**9
        for first, levels, verified in old.levels() if old is not None else ():
            self._levels[first : first + len(levels)] = levels
            self._verified[first : first + len(levels)] = verified

    @property
    def count(self) -> int:
        """Files of the version."""
        return self.manifest.count

    def see(self, index: int, stamp: Stamp, known: bool) -> None:
        """Level 1 saw a file. `known`: the stamp is the old record's, and so is its level."""
        self._put(index, stamp)
        if not known or self._levels[index] == KNOWN_BAD:
            self._set(index, 1)

    def prove(self, index: int, stamp: Stamp, level: int) -> None:
        """A file's whole content was right while it had this stamp."""
        self._put(index, stamp)
        self._set(index, level)

    def void(self, index: int) -> None:
        """A file is bad."""
        self._set(index, KNOWN_BAD)

    def lowest_level(self) -> int:
        """The level every file was proven to; -1 when one is bad or was not seen."""
        if not self._levels:
            return 4
        if self._levels.count(0) or self._levels.count(KNOWN_BAD):
            return -1
        return min(self._levels)

    def unsettled(self) -> int:
        """Files written while they were verified: their stamps are not kept."""
        return sum(self._is_unsettled(index) for index in range(self.count))

    def rows(self, first: int, count: int) -> Sequence[Row]:
        """Rows for the table."""
        return [self._row(index) for index in range(first, first + count)]

    def _row(self, index: int) -> Row:
        entry = self.manifest.files[index]
        level = self._levels[index]
        stamp = self._stamp(index)
        if level in (0, KNOWN_BAD) or self._is_unsettled(index):
            size = entry.size_bytes if entry.size_bytes is not None else stamp[1]
            return Row(entry, (0, size, 0, 0), KNOWN_BAD if level == KNOWN_BAD else 0, 0)
        return Row(entry, stamp, level, self._verified[index])

    def _is_unsettled(self, index: int) -> bool:
        return self._stamp(index)[3] >= self.started_ns - TICK_NS // 4

    def _stamp(self, index: int) -> Stamp:
        inode, size, mtime_ns, ctime_ns = STAMP.unpack_from(self._stamps, index * STAMP.size)
        return inode, size, mtime_ns, ctime_ns

    def _put(self, index: int, stamp: Stamp) -> None:
        STAMP.pack_into(self._stamps, index * STAMP.size, *stamp)

    def _set(self, index: int, level: int) -> None:
        self._levels[index] = level
        self._verified[index] = min(self._now_s, 0xFFFFFFFF)
