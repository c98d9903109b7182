"""One JuiceFS mount's counters from reading to reading."""

from __future__ import annotations

from typing import NamedTuple

from slurm_io.filesystems.client_counters import OP_CLASSES, ClientCounters, OpClass
from slurm_io.filesystems.juicefs.stats import (
    JuiceCounters,
    JuiceStats,
    cache_of,
    counters_of,
    started_s,
)

_NS_PER_MS = 1e6


class ClassReading(NamedTuple):
    """Totals of one class, and the mean time of its object requests since the reading before."""

    counters: ClientCounters
    store_ms: float | None


class JuiceClient:
    """What was read before, and what the readings say together.

    Attributes:
        restarts: how often the mount's daemon was seen to have started anew.
    """

    def __init__(self) -> None:
        self.restarts = 0
        self._first: JuiceStats | None = None
        self._last: JuiceStats | None = None
        self._before: dict[OpClass, JuiceCounters] = {}

    def take(self, stats: JuiceStats) -> dict[OpClass, ClassReading]:
        """Note a reading; what it says of each class that is told."""
        if self._last is not None and started_s(stats) < started_s(self._last):
            self.restarts += 1
            self._first = None
            self._before = {}
        self._first = self._first or stats
        self._last = stats
        now = counters_of(stats)
        found = {}
        for op_class in OP_CLASSES:
            if op_class in now:
                before = self._before.get(op_class)
                one = now[op_class] = _not_below(before, now[op_class], op_class)
                found[op_class] = ClassReading(one.operations, _store_ms(before, one))
        self._before = now
        return found

    def since_start(self) -> dict[str, object]:
        """Cache and object store since the first reading."""
        first, last = self._first, self._last
        if first is None or last is None:
            return {}
        return {
            "edition": last.edition,
            "cache": _grown(cache_of(first), cache_of(last)),
            "store_requests": _grown(_requests(first), _requests(last)),
            "lines_not_understood": last.damaged,
        }


def _not_below(
    before: JuiceCounters | None, now: JuiceCounters, op_class: OpClass
) -> JuiceCounters:
    """`meta` is a difference of counters that the daemon does not read at one moment: it may seem
    to step back by those that were just running."""
    if before is None or op_class != "meta":
        return now
    old, new = before.operations, now.operations
    held = new._replace(ops=_larger(old.ops, new.ops), exe_ns=_larger(old.exe_ns, new.exe_ns))
    return now._replace(operations=held)


def _larger(before: int | None, now: int | None) -> int | None:
    return now if before is None or now is None else max(before, now)


def _store_ms(before: JuiceCounters | None, now: JuiceCounters) -> float | None:
    if (
        before is None
        or before.store_ns is None
        or before.store_requests is None
        or now.store_ns is None
        or now.store_requests is None
    ):
        return None
    requests = now.store_requests - before.store_requests
    time_ns = now.store_ns - before.store_ns
    return time_ns / requests / _NS_PER_MS if requests > 0 and time_ns >= 0 else None


def _requests(stats: JuiceStats) -> dict[str, int]:
    found = counters_of(stats)
    names: dict[OpClass, str] = {"read": "GET", "write": "PUT"}
    numbers = {
        names[op_class]: each.store_requests
        for op_class, each in found.items()
        if op_class in names
    }
    errors = {
        name: stats.values.get(name) for name in ("juicefs_object_request_errors", "object.error")
    }
    failed = next((int(value) for value in errors.values() if value is not None), None)
    return {
        name: number for name, number in {**numbers, "failed": failed}.items() if number is not None
    }


def _grown(first: dict[str, int], last: dict[str, int]) -> dict[str, int]:
    return {name: max(0, number - first.get(name, 0)) for name, number in last.items()}
