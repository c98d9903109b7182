"""Tables of Lustre: rpc_stats of osc and mdc, extents_stats of llite, brw_stats of servers.

    read RPCs in flight:  0
    pending write pages:  1244

                            read                    write
    pages per rpc         rpcs   % cum % |       rpcs   % cum %
    1:                       0   0   0   |       1537   0   0
    2:                       0   0   0   |       1489   0   0

Which tables there are differs by version, so they are known by their titles. A table ends where its
share reaches 100: rows missing at its end are zero. osc_stats has scalars alone, without a colon.
Some mdc builds print ``%%``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from slurm_io.filesystems.lustre.stats import Times, with_time

_TIMES = ("snapshot_time", "start_time", "elapsed_time")
_TITLE = re.compile(r"^(\S.*?)(?:\s{2,}|\t)\s*\S+\s+%+\s*cum")
_ROW = re.compile(
    r"^\s*(\S.*?)\s*:\s+(\d{1,20})\s+\d+\s+\d+(?:\s*\|\s*(\d{1,20})\s+\d+\s+\d+)?\s*$"
)
_SCALAR = re.compile(r"^([A-Za-z][^:|\t]*?)(?::\s*|\t+)(\d{1,20})$")
_LARGEST = 1 << 63


class Table(NamedTuple):
    """One table: counts by row (``1``, ``4K - 8K``) for each of its `columns`.

    `pid` is set in extents_stats_per_process.
    """

    title: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[int, ...]]
    pid: int | None = None

    def total(self, column: str) -> int:
        """Sum of one column; 0 when the table has no such column."""
        if column not in self.columns:
            return 0
        place = self.columns.index(column)
        return sum(counts[place] for counts in self.rows.values() if len(counts) > place)


class Histograms(NamedTuple):
    """One file. `is_off` for extents_stats that nobody switched on; do not switch it on."""

    times: Times
    scalars: dict[str, int]
    tables: tuple[Table, ...]
    is_off: bool
    unread_lines: int

    def table(self, title: str) -> Table | None:
        """The table of that title; None when this version has none."""
        return next((table for table in self.tables if table.title == title), None)


def parse_histograms(text: str) -> Histograms:
    """All scalars and tables of a file."""
    if text.startswith("disabled"):
        return Histograms(Times(), {}, (), True, 0)
    times, scalars, tables, unread = Times(), dict[str, int](), list[Table](), 0
    columns: tuple[str, ...] = ()
    for line in text.splitlines():
        words = line.split()
        if not words or line.strip() == ":":
            continue
        if words[0].rstrip(":") in _TIMES:
            times = with_time(times, line.encode("utf-8", "replace").split())
        elif found := _TITLE.match(line):
            tables.append(Table(found[1].rstrip(), columns, {}))
        elif found := _ROW.match(line):
            unread += not (tables and _add(tables[-1], found))
        elif words[0] == "PID:" and tables and words[1:2] and words[1].isdecimal():
            tables.append(tables[-1]._replace(rows={}, pid=int(words[1][:20])))
        elif found := _SCALAR.match(line.strip()):
            scalars.setdefault(found[1], min(int(found[2]), _LARGEST - 1))
        elif all(word.isalpha() or word == "|" for word in words):
            columns = tuple(word for word in words if word != "|")
        else:
            unread += not line.rstrip().endswith("=")
    tables = [table for table in tables if table.pid is not None or not _has_pids(tables)]
    return Histograms(times, scalars, tuple(tables), False, unread)


def _has_pids(tables: list[Table]) -> bool:
    return any(table.pid is not None for table in tables)


def _add(table: Table, row: re.Match[str]) -> bool:
    counts = tuple(int(count) for count in row.groups()[1:] if count is not None)
    if max(counts) >= _LARGEST:
        return False
    table.rows.setdefault(row[1], counts)
    return True
