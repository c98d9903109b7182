"""What the history says of failures: how often, in bursts or not, by which nodes, how long repairs
take.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from slurm_io.reservation.history import HistoryRecord

WEEK_S = 7 * 86400.0
LEMON_S = 30 * 86400.0
_LONGEST_S = 26 * WEEK_S
_SAME_S = 2 * 3600.0
"""Records of one node so near one another tell of the same failure."""
_OUTAGE_S = 86400.0
"""A swap tells of a failure that far away when no repair lies between: Slurm's time of a node's
trouble, which the swap keeps, may be long before the watch's first look, and a swap that was rolled
back is tried again."""
_LEAST_WEEKS = 2.0
_WEEKS_FOR_BURSTS = 8


@dataclass(frozen=True)
class Failures:
    """`events`: (node, epoch s), each failure once. `observed_s`: how long the history reaches
    back, at most half a year; None without one. `mttr_s`: mean time to repair, of `repairs`."""

    events: tuple[tuple[str, float], ...]
    observed_s: float | None
    mttr_s: float | None
    repairs: int

    @property
    def per_week(self) -> float | None:
        """Failures per week; None where the history is too short to say."""
        if self.observed_s is None or self.observed_s < _LEAST_WEEKS * WEEK_S:
            return None
        return len(self.events) / (self.observed_s / WEEK_S)

    def dispersion(self, now_s: float) -> float:
        """Variance over mean of the failures by week; 1 unless bursts are beyond chance."""
        weeks = int((self.observed_s or 0.0) // WEEK_S)
        if weeks < _WEEKS_FOR_BURSTS or not self.events:
            return 1.0
        ages = [int((now_s - at_s) // WEEK_S) for _, at_s in self.events]
        counts = [ages.count(week) for week in range(weeks)]
        mean = fmean(counts)
        if mean == 0:
            return 1.0
        found = variance(counts) / mean
        by_chance = 1 + 2 * math.sqrt(2 / (weeks - 1))
        return found if found > by_chance else 1.0

    def lemons(self, now_s: float, more_than: int) -> tuple[tuple[str, int], ...]:
        """Nodes that failed more often than that in 30 days, worst first."""
        recent = Counter(node for node, at_s in self.events if now_s - at_s <= LEMON_S)
        return tuple((node, count) for node, count in recent.most_common() if count > more_than)


def failures_in(history: Sequence[HistoryRecord], now_s: float) -> Failures:
    """From records of any kind, oldest first."""
    recent = [each for each in history if 0 <= now_s - each.at_s <= _LONGEST_S]
    events = _events(recent)
    times = _repair_times(recent, events)
    return Failures(
        events=tuple(events),
        observed_s=now_s - recent[0].at_s if recent else None,
        mttr_s=fmean(times) if times else None,
        repairs=len(times),
    )


def _events(history: Sequence[HistoryRecord]) -> list[tuple[str, float]]:
    """Each failure once, oldest first, at the earliest time that is told of it. What the watch saw
    comes first: swaps are told apart by it."""
    events: list[tuple[str, float]] = []
    for record in sorted(history, key=lambda each: each.kind != "failure"):
        if record.kind not in ("failure", "swap") or record.bad is None:
            continue
        number = _same_failure(record, record.bad, events, history)
        if number is None:
            events.append((record.bad, record.at_s))
        else:
            events[number] = (record.bad, min(record.at_s, events[number][1]))
    return sorted(events, key=lambda event: event[1])


def _same_failure(
    record: HistoryRecord,
    node: str,
    events: Sequence[tuple[str, float]],
    history: Sequence[HistoryRecord],
) -> int | None:
    """Which of the events this record tells of, the nearest; None = of none."""
    repairs = [each.at_s for each in history if each.kind == "repair" and each.bad == node]
    near = []
    for number, (name, at_s) in enumerate(events):
        first_s, last_s = sorted((record.at_s, at_s))
        is_whole = not any(first_s <= repair_s <= last_s for repair_s in repairs)
        limit_s = _OUTAGE_S if record.kind == "swap" and is_whole else _SAME_S
        if name == node and last_s - first_s <= limit_s:
            near.append((last_s - first_s, number))
    return min(near)[1] if near else None


def _repair_times(
    history: Sequence[HistoryRecord], events: Sequence[tuple[str, float]]
) -> list[float]:
    """From each repair back to the last failure of that node before it."""
    times = []
    for record in history:
        if record.kind == "repair":
            before = [at for node, at in events if node == record.bad and at <= record.at_s]
            if before:
                times.append(record.at_s - max(before))
    return times
