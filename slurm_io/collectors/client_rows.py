"""Counters of file system clients from tick to tick, as rows of the ``fsclient`` table.

No collector of its own: what those of NFS, Lustre, Weka and the others share. It remembers the last
counters of each series (mount, source and operation class), gives the row of an interval, and
counts the series whose counters went back.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import islice
from typing import Any

from slurm_io.collectors.base import Row, Tick
from slurm_io.filesystems.client_counters import (
    ClientCounters,
    ClientFigures,
    OpClass,
    figures,
    went_back,
)
from slurm_io.filesystems.mounts import Mount

_MOST_SHOWN = 256
_RTT = 9  # place of rtt_ms in a row; exe_ms follows

_LARGEST = 1 << 63


class ClientRows:
    """Rows of one client.

    One object for all series that are read at the same ticks: the interval is that between two
    calls of :meth:`begin`, which is called only when a reading succeeded. A series is told by
    `owner` (the mount point, or what else names one client's counters: two mounts may lie over one
    another at one point) with source and class.

    Attributes:
        restarts: by mount, how often counters went back: no row for that interval.
    """

    def __init__(self) -> None:
        self.restarts: dict[str, int] = {}
        self._last: dict[tuple[Hashable, str, OpClass], ClientCounters] = {}
        self._tick: Tick | None = None
        self._interval_ns = 0

    def begin(self, tick: Tick) -> None:
        """A reading starts: its rows are stamped with `tick` and cover the time since the last."""
        before, self._tick = self._tick, tick
        self._interval_ns = 0 if before is None else tick.mono_ns - before.mono_ns

    def row(
        self,
        mount: str,
        fstype: str,
        source: str,
        op_class: OpClass,
        now: ClientCounters,
        owner: Hashable = None,
    ) -> Row | None:
        """The row of one series since its last reading.

        None at its first reading, when it did nothing and has nothing in flight, when its counters
        went back, and when a sum of them is more than can be (2^63). `owner` defaults to `mount`.
        """
        series = (mount if owner is None else owner, source, op_class)
        before = self._last.get(series)
        self._last[series] = now
        tick = self._tick
        if before is None or tick is None or self._interval_ns <= 0:
            return None
        if now == before and not now.inflight:  # as most are at most ticks
            return None
        if went_back(before, now):
            self.count_restart(mount)
            return None
        found = figures(before, now)
        if found is None or _cannot_be(found):
            return None
        return (
            tick.ts_ns,
            tick.mono_ns,
            self._interval_ns,
            mount,
            fstype,
            source,
            op_class,
            *found,
        )

    def count_restart(self, mount: str) -> None:
        """Note that counters of `mount` started again."""
        self.restarts[mount] = self.restarts.get(mount, 0) + 1

    def forget(self, owner: Hashable) -> None:
        """All series of one owner: it was unmounted, could not be read, or started again. Its next
        reading is a first one."""
        for series in [series for series in self._last if series[0] == owner]:
            del self._last[series]


def _cannot_be(found: ClientFigures) -> bool:
    counts = (found.ops, found.bytes, found.retrans, found.errors)
    return any(count is not None and count >= _LARGEST for count in counts)


def with_rtt(row: Row, rtt_ms: float | None) -> Row:
    """The row with a mean which does not come from totals of its own operations: from a mean since
    the client was loaded, or from requests of another number."""
    return (*row[:_RTT], rtt_ms, *row[_RTT + 1 :])


def with_exe(row: Row, exe_ms: float | None) -> Row:
    """As :func:`with_rtt`."""
    return (*row[: _RTT + 1], exe_ms, *row[_RTT + 2 :])


def mount_points(mounts: Iterable[Mount]) -> list[str]:
    """Where some mounts are, for facts: the first 256, as containers may bind one thousands of
    times."""
    return [shown(mount.mount_point) for mount in islice(mounts, _MOST_SHOWN)]


def shown(name: str) -> str:
    """A mount point or device as it goes into rows and facts: bytes that are no UTF-8 replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def shown_facts(fact: Any) -> Any:
    """The same facts with every text as :func:`shown` makes it."""
    if isinstance(fact, str):
        return shown(fact)
    if isinstance(fact, dict):
        return {shown_facts(key): shown_facts(value) for key, value in fact.items()}
    return [shown_facts(value) for value in fact] if isinstance(fact, list) else fact
