"""What a file system's client has counted for one mount, and what it did in an interval.

Every client that shows operations (NFS, Lustre, Weka, GPFS, Ceph, FUSE file systems) is brought to
the same three classes of operations, ``read``, ``write`` and ``meta`` (all the others), and to the
same counters, so that one table holds them all; what a client does not tell apart is ``any``. A
counter which a client does not have is None and stays None. Times are totals in nanoseconds since
the client's own start; means come from the difference of two readings, as nfsiostat makes them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

OpClass = Literal["read", "write", "meta", "any"]
OP_CLASSES: tuple[OpClass, ...] = ("read", "write", "meta")

_NS_PER_MS = 1e6


class ClientCounters(NamedTuple):
    """Totals of one mount and class. `inflight` alone is a state, not a total."""

    ops: int | None = None
    bytes: int | None = None
    rtt_ns: int | None = None
    exe_ns: int | None = None
    queue_ns: int | None = None
    retrans: int | None = None
    errors: int | None = None
    inflight: int | None = None


class ClientFigures(NamedTuple):
    """One interval, in the order of the fsclient table's columns behind `op_class`."""

    ops: int | None
    bytes: int | None
    rtt_ms: float | None
    exe_ms: float | None
    queue_ms: float | None
    retrans: int | None
    errors: int | None
    inflight: int | None


def went_back(before: ClientCounters, now: ClientCounters) -> bool:
    """True when a total of operations, bytes or time fell: remounted, cleared or reloaded. The
    interval is then worth nothing. `retrans` is a difference of two totals and may fall by
    itself."""
    totals = ("ops", "bytes", "rtt_ns", "exe_ns", "queue_ns", "errors")
    pairs = ((getattr(before, name), getattr(now, name)) for name in totals)
    return any(old is not None and new is not None and new < old for old, new in pairs)


def figures(before: ClientCounters, now: ClientCounters) -> ClientFigures | None:
    """What happened between two readings; None when nothing did and nothing is in flight.

    Means are None without a completed operation. Call it only when :func:`went_back` is False.
    """
    if now[:-1] == before[:-1] and not now.inflight:
        return None
    ops = _difference(before.ops, now.ops)
    return ClientFigures(
        ops,
        _difference(before.bytes, now.bytes),
        _mean_ms(before.rtt_ns, now.rtt_ns, ops),
        _mean_ms(before.exe_ns, now.exe_ns, ops),
        _mean_ms(before.queue_ns, now.queue_ns, ops),
        _not_negative(_difference(before.retrans, now.retrans)),
        _difference(before.errors, now.errors),
        now.inflight,
    )


def _difference(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else now - before


def _not_negative(value: int | None) -> int | None:
    """Newer kernels hold transmissions at or above operations; older ones do not."""
    return None if value is None else max(0, value)


def _mean_ms(before_ns: int | None, now_ns: int | None, ops: int | None) -> float | None:
    total_ns = _difference(before_ns, now_ns)
    return None if total_ns is None or not ops else total_ns / ops / _NS_PER_MS
