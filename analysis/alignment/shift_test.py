"""Whether two series of marks meet more often than chance: the truncated time-shift test.

Bursts come in clumps, so the marks of a series are not independent and an ordinary test of a
two-by-two table calls nearly every pair of long runs related. Here the series is compared with
itself: the spikes are moved against the drops by every number of bins up to `reach` either way,
which keeps how each of them clumps, and counted is how often they meet as well as unmoved.

With B of the 2 x reach + 1 shifts (the unmoved one included) that meet at least as well as the
unmoved one, p = B / (reach + 1). Why this holds: the meetings as a series over the shift are
stationary when one of the two series is and they are independent. Of reach + 1 neighbours in it at
most B have no more than B that are at least as good within `reach` of them, for all these
neighbours are within `reach` of one another; so each of them is such a one with probability at most
B / (reach + 1). (Yuan and Shou, A rigorous and versatile statistical test for correlations between
stationary time series, PLoS Biology 2024, prove it.) Drops in the first and the last `reach` bins
are left out, so that shifted spikes never run out of the record. A trend in both series is no
meeting: moved to the busier side, it meets better.

Marks are whole numbers used as sets of bits: bit t is bin t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_SAME = 1e-9
_LOOKS = 40
_GOLDEN = 0.6180339887498949  # multiples of it fill 0..1 evenly and share no period with anything
_TOLD_P = 0.2


@dataclass(frozen=True)
class Marks:
    """Two series of one node in `length` bins. `known`: bins that had a latency; `spikes` are some
    of them. Bins without a latency say neither "slow" nor "fast"."""

    length: int
    drops: int
    spikes: int
    known: int

    @property
    def rate(self) -> float:
        """Of the bins with a latency, those that are spikes."""
        seen = self.known.bit_count()
        return self.spikes.bit_count() / seen if seen else 0.0


@dataclass(frozen=True)
class Met:
    """`p`: None where nothing could be tested; above 0.2 it is a lower bound. `best`: place of the
    pair that meets best."""

    p: float | None
    best: int | None


def reach_of(lengths: Sequence[int], least: int, most: int) -> int | None:
    """By how many bins to move: a quarter of the shortest series, within these limits; None where
    it is shorter than three times `least`.

    p cannot be less than 1 / (reach + 1), and what lies within `reach` of an end is not looked at.
    """
    shortest = min(lengths, default=0)
    return None if shortest < 3 * least else min(max(least, shortest // 4), most)


def core(marks: int, length: int, reach: int) -> int:
    """The marks that are not among the first or the last `reach` bins."""
    inside = length - 2 * reach
    return marks & (((1 << inside) - 1) << reach) if inside > 0 else 0


def episodes(marks: int) -> int:
    """The same marks with gaps of one bin closed: what lies so near is one episode."""
    return marks | ((marks << 1) & (marks >> 1))


def count_runs(marks: int) -> int:
    """How many stretches of neighbouring marks there are."""
    return (marks & ~(marks << 1)).bit_count()


def runs_hit(runs: int, spikes: int) -> int:
    """How many stretches of `runs` hold at least one of `spikes`.

    Added to the stretches, a spike carries out of the end of its own, once however many it holds.
    """
    ends = (runs << 1) & ~runs
    return ((runs + (runs & spikes)) & ends).bit_count()


def hit_by_chance(runs: int, spikes: int, reach: int) -> float:
    """Mean number of stretches hit over some shifts, spread up to `reach` either way."""
    shifts = [round(reach * (2 * (each * _GOLDEN % 1) - 1)) for each in range(1, _LOOKS + 1)]
    return sum(runs_hit(runs, _moved(spikes, shift)) for shift in shifts) / len(shifts)


def shift_test(pairs: Sequence[Marks], reach: int) -> Met:
    """All pairs in one test: they are moved together, and the best of them counts, or all of them
    together where that is more. So many pairs do not make a false alarm likelier."""
    drops = [core(one.drops, one.length, reach) for one in pairs]
    tested = [place for place, one in enumerate(pairs) if drops[place] and 0 < one.rate < 1]
    if not tested:
        return Met(None, None)

    def statistic(shift: int) -> float:
        counts = [_meet(pairs[place], drops[place], shift) for place in tested]
        together = _score(sum(one[0] for one in counts), sum(one[1] for one in counts))
        return max(together, *(_score(*one) for one in counts))

    unmoved = statistic(0)
    as_good, most = 0, _TOLD_P * (reach + 1)
    for shift in sorted(range(-reach, reach + 1), key=abs):
        as_good += statistic(shift) >= unmoved - _SAME
        if as_good > most:
            break  # far from anything; how far, nobody asks
    best = max(tested, key=lambda place: _score(*_meet(pairs[place], drops[place], 0)))
    return Met(min(1.0, as_good / (reach + 1)), best)


def _meet(pair: Marks, drops: int, shift: int) -> tuple[int, float]:
    """Spikes in `drops` with the spikes moved by `shift` bins, and how many their rate says. Only
    bins with a latency count, on either side."""
    hits = (drops & _moved(pair.spikes, shift)).bit_count()
    return hits, pair.rate * (drops & _moved(pair.known, shift)).bit_count()


def _moved(marks: int, shift: int) -> int:
    return marks >> shift if shift >= 0 else marks << -shift


def _score(hits: float, expected: float) -> float:
    """How far more hits there are than expected, in about standard deviations. The quarter keeps
    two hits of a rare series from outweighing one in each of many."""
    return (hits - expected) / math.sqrt(expected + 0.25)
