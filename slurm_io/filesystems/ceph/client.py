"""One Ceph client's counters from reading to reading, by class of operations."""

from __future__ import annotations

from typing import NamedTuple

from slurm_io.filesystems.ceph.metrics import CephLatency, CephMetrics
from slurm_io.filesystems.ceph.requests import MdsRequests, OsdRequests
from slurm_io.filesystems.client_counters import ClientCounters, OpClass
from slurm_io.filesystems.mean_since_load import MeanSoFar, interval_mean_ns

_ITEMS: dict[OpClass, tuple[str, ...]] = {
    "read": ("read",),
    "write": ("write",),
    "meta": ("metadata", "copyfrom"),
}
_STEP_NS = 1000
_NS_PER_MS = 1e6


class ClassReading(NamedTuple):
    """Totals of one class, and the mean time of its operations since the reading before."""

    counters: ClientCounters
    exe_ms: float | None


class CephClient:
    """What was read before, and what the readings say together.

    Attributes:
        known, too_coarse: intervals with operations whose mean time could and could not be told.
    """

    def __init__(self) -> None:
        self.known = 0
        self.too_coarse = 0
        self._first: dict[str, CephLatency] = {}
        self._last: dict[str, CephLatency] = {}

    def take(
        self, metrics: CephMetrics, data: OsdRequests | None, metadata: MdsRequests | None
    ) -> dict[OpClass, ClassReading]:
        """Note a reading; what it says of each class that has a line."""
        before, self._last = self._last, metrics.latencies
        if not self._first or any(
            name in before and each.ops < before[name].ops for name, each in self._last.items()
        ):
            self._first = self._last
            before = {}
        inflight: dict[OpClass, int | None] = {
            "read": None if data is None else data.reads,
            "write": None if data is None else data.writes,
            "meta": None if metadata is None else metadata.waiting,
        }
        found: dict[OpClass, ClassReading] = {}
        for op_class, items in _ITEMS.items():
            known = [item for item in items if item in self._last]
            if known:
                counters = ClientCounters(
                    ops=sum(self._last[item].ops for item in known),
                    bytes=_bytes(op_class, metrics),
                    inflight=inflight[op_class],
                )
                found[op_class] = ClassReading(counters, self._mean_ms(before, known))
        return found

    def means_since_start_ms(self) -> dict[str, float]:
        """Mean time of an operation since the first reading, by item, where it can be told."""
        means = {item: _mean_ms(self._first, self._last, [item]) for item in self._last}
        return {item: round(mean, 3) for item, mean in means.items() if mean is not None}

    def _mean_ms(self, before: dict[str, CephLatency], items: list[str]) -> float | None:
        if not before:
            return None
        mean_ms = _mean_ms(before, self._last, items)
        if any(item in before and self._last[item].ops > before[item].ops for item in items):
            self.known += mean_ms is not None
            self.too_coarse += mean_ms is None
        return mean_ms


def _bytes(op_class: OpClass, metrics: CephMetrics) -> int | None:
    size = metrics.sizes.get(op_class)
    return None if size is None else size.total_bytes


def _mean_ms(
    before: dict[str, CephLatency], now: dict[str, CephLatency], items: list[str]
) -> float | None:
    nothing = CephLatency(0, 0)
    pairs = [
        (_so_far(before.get(item, nothing)), _so_far(now.get(item, nothing))) for item in items
    ]
    # Newer kernels move their mean by (latency - mean) / operations, cut to whole ns: each
    # operation may be off by as many ns as there were operations.
    drift_ns = max((pair[1].ops for pair in pairs), default=0)
    mean_ns = interval_mean_ns(pairs, drift_ns)
    return None if mean_ns is None else mean_ns / _NS_PER_MS


def _so_far(latency: CephLatency) -> MeanSoFar:
    return MeanSoFar(latency.ops, latency.mean_us * 1000, _STEP_NS)
