"""One output file: how far it was read, its parser, and rows of what was found."""

from __future__ import annotations

import binascii
import json
import time
from typing import Any

from slurm_io.collectors.base import Row, Tick
from slurm_io.collectors.log.outputs import shown_path
from slurm_io.host.job_output import Known, Rights, read_path
from slurm_io.host.probe import Call
from slurm_io.joblog.model import LogRecord
from slurm_io.joblog.stamps import Stamp
from slurm_io.joblog.tail import LogTail

_NS = 1_000_000_000
_MOST_PIECE_BYTES = 64 * 1024
_LARGEST = 1 << 63
# Lines come late where output is buffered by blocks. Time zones differ by 15 minutes or more: a
# stamp older than this is one of another zone, or cannot be told from one.
_LATEST_S = 14 * 60
_AHEAD_S = 2.0

Piece = tuple[int, int, int, int, bytes]


def checked_piece(piece: Any) -> Piece | None:
    """What a child answered, if it is of the right form: it may be a hostile one."""
    if not isinstance(piece, list) or len(piece) != 5 or not isinstance(piece[4], str):
        return None
    numbers = piece[:4]
    if not all(type(number) is int and 0 <= number < 1 << 64 for number in numbers):
        return None
    try:
        data = binascii.a2b_base64(piece[4], strict_mode=True) if piece[4] else b""
    except (ValueError, binascii.Error):
        return None
    if len(data) > _MOST_PIECE_BYTES:
        return None
    device, inode, size, start = numbers
    return device, inode, size, start, data


class Watched:
    """A file known by device and inode. `path`: its name when it was found first.

    What it held when it was first seen is of unknown age ("early"), unless `is_new`: it replaced
    another one under a name that was watched.
    """

    def __init__(self, path: str, number: int, piece: Piece, is_new: bool) -> None:
        device, inode, size, start, _data = piece
        self.path = path
        self.known: Known = (device, inode, start)
        self.rights: Rights | None = None
        self.grew = True
        self.has_ended = False
        self.is_settled = False
        self.rows_by_source: dict[str, int] = {}
        self._number = number
        self._truncations = 0
        self._tail = LogTail(start)
        self._tail.counts.bytes_skipped = start
        self._early_until = 0 if is_new else size

    @property
    def bytes_read(self) -> int:
        """Bytes the parser saw."""
        return self._tail.counts.bytes_read

    def ingest(self, piece: Piece) -> None:
        """Take what was read; parts seen before are left out, holes are counted."""
        device, inode, size, start, data = piece
        offset = self.known[2]
        if size < offset:
            self._truncations += 1
            self._early_until = offset = 0
            self._tail.restart()
        data = data[max(0, offset - start) :]
        self._tail.skip(start - offset)
        self._tail.feed(data)
        self.grew = bool(data)
        self.known = (device, inode, max(start, offset) + len(data))

    def last_call(self, limit_bytes: int) -> Call:
        """What a child is to do when no process has the file open any more."""
        return read_path, (self.path, self.rights, self.known, limit_bytes)

    def rows(self, tick: Tick, first: Tick, last: bool = False) -> list[Row]:
        """Rows of what is complete; stamped with the line's own time or that of `tick`."""
        self.is_settled = last
        rows = []
        for record in self._tail.take(last):
            rows.append(self._row(record, tick, first))
            self.rows_by_source[record.source] = self.rows_by_source.get(record.source, 0) + 1
        return rows

    def facts(self) -> dict[str, object]:
        """For meta.json."""
        counts = self._tail.counts
        return {
            "path": shown_path(self.path),
            "bytes_read": counts.bytes_read,
            "skipped_bytes": counts.bytes_skipped,
            "rows": counts.records,
            "torn_lines": counts.torn_lines,
            "long_lines": counts.long_lines,
            "late_duplicates": counts.late_duplicates,
            "truncations": self._truncations,
            "parser_faults": counts.faults,
        }

    def _row(self, record: LogRecord, tick: Tick, first: Tick) -> Row:
        ts_ns = stamped_ns(record.stamp, tick)
        is_early = record.at_byte < self._early_until
        if ts_ns is not None and ts_ns >= first.ts_ns:
            is_early = False  # its own stamp says that it was printed under our eyes
        detail: dict[str, object] = {
            "kind": record.kind, "run": record.run, **record.detail, "file": self._number,
            "at_byte": record.at_byte, "clock": "read" if ts_ns is None else "stamp",
        }  # fmt: skip
        if is_early:
            detail["early"] = True
        row_ns = tick.ts_ns if ts_ns is None else ts_ns
        step = record.step if record.step is not None and record.step < _LARGEST else None
        return (
            row_ns,
            tick.mono_ns + row_ns - tick.ts_ns,
            record.source,
            step,
            record.step_time_s,
            record.samples_per_s,
            record.tokens_per_s,
            json.dumps(detail, separators=(",", ":")),
        )


def stamped_ns(stamp: Stamp | None, tick: Tick) -> int | None:
    """A line's own time, UTC ns, where it can be right: this node's zone, not after the reading,
    not long before it. None else."""
    if stamp is None or not stamp.has_year:
        return None
    seconds = stamp.seconds
    if stamp.zone == "local":
        try:
            seconds -= time.localtime(seconds).tm_gmtoff
        except (OverflowError, ValueError, OSError):
            return None
    behind_s = tick.ts_ns / _NS - seconds
    return int(seconds * _NS) if -_AHEAD_S <= behind_s <= _LATEST_S else None
