"""The figures of ``iostat -dx`` from two readings of a device's counters.

Same formulas and units as sysstat (kB = 1024 bytes, awaits in ms, util in percent, not clamped),
with one difference: a mean over no requests is None where iostat prints 0. A counter that went back
makes the interval worthless; iostat prints 9223372036854775808.00 reads a second then.
"""

from __future__ import annotations

from typing import NamedTuple

from slurm_io.filesystems.diskstats import DiskCounters

_WRAP_MS = 1 << 32
_HALF_WRAP_MS = 1 << 31
_LARGEST_INFLIGHT = 1 << 31


class Figures(NamedTuple):
    """One device over one interval, in the order of the block table's columns."""

    r_s: float | None
    rkB_s: float | None  # noqa: N815 - iostat's name
    rrqm_s: float | None
    r_await: float | None
    rareq_sz: float | None
    w_s: float | None
    wkB_s: float | None  # noqa: N815
    wrqm_s: float | None
    w_await: float | None
    wareq_sz: float | None
    d_s: float | None
    dkB_s: float | None  # noqa: N815
    drqm_s: float | None
    d_await: float | None
    dareq_sz: float | None
    f_s: float | None
    f_await: float | None
    aqu_sz: float | None
    util: float | None
    inflight: int | None
    stuck: bool | None


def went_back(before: DiskCounters, now: DiskCounters) -> bool:
    """True when a count or a sector number fell: the device was taken out and put in again, or the
    kernel slipped. These are 64 bits wide and do not wrap."""
    return any(
        (old is None) != (new is None) or (old is not None and new is not None and new < old)
        for old, new in zip(_lasting(before), _lasting(now), strict=True)
    )


def figures(
    before: DiskCounters, now: DiskCounters, interval_s: float, is_partition: bool = False
) -> Figures:
    """What iostat would print for the interval; call it only when :func:`went_back` is False.

    Flushes are None on partitions: the kernel counts them on whole disks alone.
    """
    reads = now.read_ios - before.read_ios
    writes = now.write_ios - before.write_ios
    discards = _difference(before.discard_ios, now.discard_ios)
    flushes = None if is_partition else _difference(before.flush_ios, now.flush_ios)
    return Figures(
        *_group(
            reads,
            now.read_sectors - before.read_sectors,
            _difference(before.read_merges, now.read_merges),
            wrapped_ms(before.read_ms, now.read_ms),
            interval_s,
        ),
        *_group(
            writes,
            now.write_sectors - before.write_sectors,
            _difference(before.write_merges, now.write_merges),
            wrapped_ms(before.write_ms, now.write_ms),
            interval_s,
        ),
        *_group(
            discards,
            _difference(before.discard_sectors, now.discard_sectors),
            _difference(before.discard_merges, now.discard_merges),
            wrapped_ms(before.discard_ms, now.discard_ms),
            interval_s,
        ),
        _per(flushes, interval_s),
        _per(wrapped_ms(before.flush_ms, now.flush_ms), flushes),
        _per(wrapped_ms(before.weighted_ms, now.weighted_ms), 1000 * interval_s),
        _percent_busy(before, now, interval_s),
        now.inflight if _plausible(now.inflight) else None,
        _stuck(before, now),
    )


def wrapped_ms(before: int | None, now: int | None) -> int | None:
    """Difference of two 32-bit millisecond counters.

    A step of more than half the range is a counter that slipped back by a little, not one that ran
    24 days ahead in an interval: None.
    """
    if before is None or now is None:
        return None
    step = (now - before) % _WRAP_MS
    return step if step < _HALF_WRAP_MS else None


def requests_waiting(counters: DiskCounters) -> bool:
    """True when the device holds requests now (old kernels show -1 as a huge number: not one)."""
    return bool(counters.inflight) and _plausible(counters.inflight)


def _group(
    ios: int | None,
    sectors: int | None,
    merges: int | None,
    spent_ms: int | None,
    interval_s: float,
) -> tuple[float | None, float | None, float | None, float | None, float | None]:
    kilobytes = None if sectors is None else sectors / 2
    return (
        _per(ios, interval_s),
        _per(kilobytes, interval_s),
        _per(merges, interval_s),
        _per(spent_ms, ios),
        _per(kilobytes, ios),
    )


def _per(amount: float | None, base: float | None) -> float | None:
    return amount / base if amount is not None and base else None


def _difference(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else now - before


def _percent_busy(before: DiskCounters, now: DiskCounters, interval_s: float) -> float | None:
    busy_ms = wrapped_ms(before.io_ms, now.io_ms)
    return None if busy_ms is None else busy_ms / (10 * interval_s)


def _stuck(before: DiskCounters, now: DiskCounters) -> bool | None:
    if now.inflight is None:
        return None
    return requests_waiting(before) and requests_waiting(now) and _completed(before, now) == 0


def _completed(before: DiskCounters, now: DiskCounters) -> int:
    return sum(
        (new or 0) - (old or 0)
        for old, new in (
            (before.read_ios, now.read_ios),
            (before.write_ios, now.write_ios),
            (before.discard_ios, now.discard_ios),
            (before.flush_ios, now.flush_ios),
        )
    )


def _plausible(inflight: int | None) -> bool:
    return inflight is not None and 0 <= inflight < _LARGEST_INFLIGHT


def _lasting(counters: DiskCounters) -> tuple[int | None, ...]:
    return (
        *counters[0:3],
        *counters[4:7],
        *counters[11:14],
        counters.flush_ios,
    )
