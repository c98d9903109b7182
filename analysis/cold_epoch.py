"""The cold-epoch contrast: the same data read twice, once from storage and once from memory.

A first pass that fetched its data from storage and waited for it, and later passes over the same
data that fetched next to nothing and did not wait, show what storage cost. Two counters that know
nothing of the wait samples: bytes from storage, and the hook's stopwatch.

Not a contrast, and why:

- every pass reads from storage again (memory is smaller than the data, or the cache is dropped);
- later passes ask for less: the program kept what it had read;
- the first pass burned so much more CPU a batch that its waits may be that work;
- passes too short, workers hardly seen, a job attached to in the middle (its first pass is none).

Later passes that read nothing from storage and wait as long as the first speak against storage.
The first batch of each pass (workers start) and the job's first ones (compilation) do not count.
"""

from __future__ import annotations

from dataclasses import dataclass

from slurm_io.analysis.reads import Reads, ReadSlice
from slurm_io.analysis.thresholds import ColdEpoch
from slurm_io.analysis.witness import Witness

CONTRAST = "cold-epoch contrast"
_METRIC = "first_over_later_wait"


@dataclass(frozen=True)
class _Later:
    """All passes behind the first, together."""

    batches: int
    waits: int
    wait_s: float
    asked: float | None
    storage_high: float | None
    storage_low: float | None
    cpu_s: float | None


def cold_contrast(reads: Reads | None, is_attached: bool, limits: ColdEpoch) -> Witness:
    """The witness. `agrees` is None where there is nothing to compare."""
    why = _unusable(reads, is_attached, limits)
    if why is not None or reads is None:
        return Witness(CONTRAST, None, why or "", _METRIC)
    first, later = reads.slices[0], _together(reads.slices[1:])
    why = _not_cold(first, reads.mapped, limits) or _not_warm(first, later, limits)
    why = why or _other_work(first, later, reads.mapped, limits)
    if why is not None:
        return Witness(CONTRAST, None, why, _METRIC)
    return _compare(first, later, limits)


def _unusable(reads: Reads | None, is_attached: bool, limits: ColdEpoch) -> str | None:
    if reads is None:
        return "the processes' reads were not recorded"
    if reads.kind != "epoch":
        return "the job made one pass over its data, or nobody saw where passes begin"
    if is_attached or reads.slices[0].epochs is None or reads.slices[0].epochs[0] != 0:
        return "the job's first pass was not seen from its beginning"
    if any(one.span_s < limits.min_span_s for one in (reads.slices[0], reads.slices[1])):
        return f"passes of less than {limits.min_span_s:.0f} s"
    if any(one.waits < limits.min_waits for one in (reads.slices[0], reads.slices[1])):
        return f"fewer than {limits.min_waits} batches timed in a pass"
    seen = [one.seen_share for one in reads.slices if one.seen_share is not None]
    if len(seen) < len(reads.slices) or min(seen) < limits.min_seen_share:
        return "the workers of a pass were seen for too little of their time"
    return None


def _together(slices: tuple[ReadSlice, ...]) -> _Later:
    return _Later(
        batches=sum(one.batches for one in slices),
        waits=sum(one.waits for one in slices),
        wait_s=sum(one.wait_s for one in slices),
        asked=_sum([one.asked_bytes for one in slices]),
        storage_high=_sum([one.storage.high for one in slices]),
        storage_low=_sum([one.storage.low for one in slices]),
        cpu_s=_sum([one.cpu_s for one in slices]),
    )


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _not_cold(first: ReadSlice, mapped: bool, limits: ColdEpoch) -> str | None:
    """Why the first pass does not count as read from storage."""
    fetched = _fetched(first)
    if fetched is None:
        return f"what came from storage is not known: {first.storage.why or 'no counter'}"
    if fetched < limits.cold_bytes_per_batch * first.batches:
        return "the first pass read next to nothing from storage"
    if not mapped and (
        first.asked_bytes is None or fetched < limits.cold_share * first.asked_bytes
    ):
        return "the first pass found most of what it asked for in memory"
    return None


def _fetched(one: ReadSlice) -> float | None:
    """What a pass certainly read from storage; the client's bytes only where they are not more
    than it may have been, for they are the whole node's."""
    if one.storage.low is None:
        return None
    if one.storage.low > 0 or one.storage.high is None or one.asked_bytes is None:
        return one.storage.low if one.storage.low > 0 or one.storage.high is not None else None
    return one.storage.high if one.storage.high <= 2 * one.asked_bytes else None


def _not_warm(first: ReadSlice, later: _Later, limits: ColdEpoch) -> str | None:
    """Why the later passes do not count as read from memory."""
    if later.storage_high is None:
        return f"what later passes read from storage is not known: {first.storage.why}"
    cold = (_fetched(first) or 0.0) / first.batches
    if later.storage_high / later.batches > limits.warm_over_cold * cold:
        return (
            "later passes read from storage again: memory does not hold the data from one pass to "
            "the next, or they read other parts of it"
        )
    return None


def _other_work(first: ReadSlice, later: _Later, mapped: bool, limits: ColdEpoch) -> str | None:
    """Why the later passes are not the same work as the first."""
    asked = _ratio(later.asked, later.batches, first.asked_bytes, first.batches)
    if not mapped and (asked is None or asked < limits.same_asked):
        return "later passes asked for less: the program itself kept what the first one read"
    more_s = _more_cpu_s(first, later)
    if more_s is None:
        return "the CPU time of the passes is not known"
    if more_s > limits.cpu_of_gain * _gain_s(first, later) and more_s > limits.wait_gain_s:
        return "the first pass burned more CPU, which may be what its batches waited for"
    return None


def _more_cpu_s(first: ReadSlice, later: _Later) -> float | None:
    """CPU time of all readers that a batch of the first pass took beyond one of the later ones: it
    cannot have delayed a batch by more than this. Reading from storage costs some by itself."""
    if first.cpu_s is None or later.cpu_s is None or not later.batches:
        return None
    return max(0.0, first.cpu_s / first.batches - later.cpu_s / later.batches)


def _gain_s(first: ReadSlice, later: _Later) -> float:
    return first.wait_s / first.waits - later.wait_s / max(later.waits, 1)


def _ratio(
    later: float | None, later_batches: int, first: float | None, first_batches: int
) -> float | None:
    if later is None or not first or not later_batches:
        return None
    return later / later_batches * first_batches / first


def _compare(first: ReadSlice, later: _Later, limits: ColdEpoch) -> Witness:
    cold_s, warm_s = first.wait_s / first.waits, later.wait_s / max(later.waits, 1)
    gain_s = _gain_s(first, later)
    needed_s = max(limits.wait_gain_s, limits.wait_gain_share * first.span_s / first.batches)
    ratio = cold_s / max(warm_s, limits.wait_gain_s)
    what = (
        f"the first pass read from storage and waited {cold_s * 1000:.1f} ms a batch, later ones "
        f"read the same from memory and waited {warm_s * 1000:.1f} ms"
    )
    if gain_s >= needed_s and ratio >= limits.wait_ratio:
        return Witness(CONTRAST, True, what, _METRIC, ratio, limits.wait_ratio)
    if warm_s >= limits.same_wait * cold_s and warm_s >= limits.wait_gain_s:
        return Witness(CONTRAST, False, what, _METRIC, ratio, limits.wait_ratio)
    return Witness(CONTRAST, None, f"{what}: too little between them", _METRIC, ratio)
