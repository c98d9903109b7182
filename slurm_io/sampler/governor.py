"""Keeps the sampler's own CPU time under its budget by slowing its dearest source first.

What can be slowed (:mod:`.paces`): the rate of waits passes, the period of process discovery, how
often a hook ring is drained, and the period of every collector. What cannot: writing. The share of
one core is averaged over a window of up to 20 s that starts anew with each change. Going slower
takes 5 s of evidence (2 s when it is far above); then the dearest source goes one pace slower, and
again the dearest of those that remain, until what they are expected to cost fits the budget. Going
faster takes 20 s below the budget with room for what it is expected to add; each failed attempt to
go faster doubles the wait for the next. A source that was slowed may cost nothing in those 20 s and
much in the next, so it is taken at what it cost since its last change of pace, if that is more.

Waits are the evidence: they go below two passes a second only when every other source has slowed
down and they alone still cost a third of the budget. Where that is not enough, the node is large:
then all sources go further, the dearest first, as low as the budget asks. Where the others alone
are over it, so that it is out of reach, waits keep their third. Once they are slowed, ranks that
compute are looked at less often than those that wait (:attr:`Pace.hold_s`), and below one pass a
second a pass looks at a part of the ranks (:attr:`Pace.turns`).

A budget that cannot be kept with every source at its slowest is told: ``out_of_reach`` in
:meth:`Governor.to_dict`.

What was spent below the budget may be spent later, and every job starts with a small credit: the
few samples of a short job are all the evidence there will be, while over a long job the credit
is nothing. Deterministic: the clock and the CPU time come from the caller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slurm_io.sampler.paces import (
    DISCOVERY,
    LAST_FAIR_WAITS,
    WAITS,
    Pace,
    last_easy,
    pace_of,
    relative,
    steps,
)

_WINDOW_S = 20.0
_EVIDENCE_S = 5.0
_SETTLING_S = 3.0  # imports and the first look at everything are no habit
_ROOM = 0.85  # of the budget, with what going faster is expected to add
_EXPECTED_FOR_S = 60.0  # what a change of pace was expected to bring counts as so much evidence
_WORTH_SLOWING = 0.03  # of the budget: below, nothing would be won
_RESERVED_FOR_WAITS = 1 / 3
_FIRST_PATIENCE_S = 20.0
_LONGEST_PATIENCE_S = 640.0
_MOST_CHANGES_KEPT = 100
_URGENT_TIMES, _URGENT_EVIDENCE_S = 5.0, 2.0
CREDIT_S = 0.3  # 0.3 % of one core over 100 s


@dataclass(frozen=True)
class _Reading:
    at_s: float
    cpu_s: float
    by_source: Mapping[str, float]


@dataclass(frozen=True)
class _AtLevel:
    """A source since its last change: when, CPU seconds until then, share expected from then on."""

    since_s: float
    cpu_s: float
    expected: float

    def share(self, now_s: float, cpu_s: float) -> float:
        """Of one core, since then; what was expected counts as well."""
        seconds = _EXPECTED_FOR_S + now_s - self.since_s
        return (self.expected * _EXPECTED_FOR_S + cpu_s - self.cpu_s) / seconds


class Governor:
    """Call :meth:`update` once a second; read :attr:`pace`. A source is whatever `by_source` of
    :meth:`update` names: :data:`WAITS`, :data:`DISCOVERY`, and collectors."""

    def __init__(self, budget_share: float, most_waits_hz: float) -> None:
        self._budget = budget_share
        self._most_waits_hz = most_waits_hz
        # A step above what was asked for would change nothing: begin at the last that is not.
        asked = sum(1 for step in steps(WAITS) if step >= most_waits_hz) - 1
        self._fastest_waits = max(0, asked)
        self._levels = {WAITS: self._fastest_waits, DISCOVERY: 0}
        self._at_level: dict[str, _AtLevel] = {}
        self._start_s: float | None = None
        self._balance_s = CREDIT_S
        self._window: deque[_Reading] = deque()
        self._patience_s = _FIRST_PATIENCE_S
        self._changed_at = float("-inf")
        self._sped_up_at = float("-inf")
        self._changes: list[dict[str, Any]] = []
        self._n_changes = 0
        self._share: float | None = None
        self._is_at_its_end = False
        self._out_of_reach_s = 0.0
        self.pace = self._pace()

    def update(self, now_s: float, cpu_s: float, by_source: Mapping[str, float]) -> bool:
        """Take note of the CPU seconds used so far, in all and by source; True = pace changed."""
        if self._start_s is None:
            self._start_s = now_s
        if now_s - self._start_s < _SETTLING_S:
            return False
        self._remember(_Reading(now_s, cpu_s, dict(by_source)))
        first = self._window[0]
        span_s = now_s - first.at_s
        share = (cpu_s - first.cpu_s) / span_s if span_s > 0 else 0.0
        is_urgent = share > _URGENT_TIMES * self._budget and span_s >= _URGENT_EVIDENCE_S
        if span_s < _EVIDENCE_S and not is_urgent:
            return False
        self._share = share
        if share > self._budget and self._balance_s < 0:
            return self._slow_down(now_s, share)
        self._is_at_its_end = False
        return share < self._budget and span_s >= _WINDOW_S - 1 and self._speed_up(now_s, share)

    def to_dict(self) -> dict[str, Any]:
        """``governor`` of self.json; the last changes with their monotonic time and reason.

        ``paces`` are those of the sources that are slower than they could be: looks a second at a
        process, seconds, or the factor on the period. ``share``: of one core, lately; None in the
        first seconds. ``out_of_reach``: that is above the budget and nothing more can be slowed;
        ``out_of_reach_s`` for how long it was so in all.
        """
        slowed = [name for name in self._levels if self._levels[name] > self._fastest(name)]
        return {
            "budget_share": self._budget,
            "level": sum(self._levels[name] - self._fastest(name) for name in slowed),
            "paces": {name: steps(name)[self._levels[name]] for name in slowed},
            "share": None if self._share is None else round(self._share, 6),
            "out_of_reach": self._is_at_its_end,
            "out_of_reach_s": round(self._out_of_reach_s, 1),
            "changes": list(self._changes),
            "changes_total": self._n_changes,
        }

    def _pace(self) -> Pace:
        is_slowed = self._levels[WAITS] > self._fastest_waits
        return pace_of(self._levels, self._most_waits_hz, is_slowed)

    def _fastest(self, name: str) -> int:
        return self._fastest_waits if name == WAITS else 0

    def _remember(self, reading: _Reading) -> None:
        if self._window:
            last = self._window[-1]
            allowed_s = self._budget * (reading.at_s - last.at_s)
            spent_s = reading.cpu_s - last.cpu_s
            self._balance_s = min(CREDIT_S, self._balance_s + allowed_s - spent_s)
            if self._is_at_its_end:
                self._out_of_reach_s += reading.at_s - last.at_s
        self._window.append(reading)
        while reading.at_s - self._window[0].at_s > _WINDOW_S:
            self._window.popleft()

    def _slow_down(self, now_s: float, share: float) -> bool:
        """The dearest source one pace slower, and so on until the rest should fit the budget."""
        costs, levels, expected = self._costs(), dict(self._levels), share
        went_easily = False
        while expected > self._budget:
            source = self._dearest_easy(costs, levels)
            went_easily |= source is not None
            if source is None and not went_easily:  # else see first what that has brought
                source = self._dearest(costs, levels, expected)
            if source is None:
                break
            before = costs[source]
            costs[source] = before * relative(source, levels.get(source, 0))
            expected -= before - costs[source]
            levels[source] = levels.get(source, 0) + 1
        slowed = {name: level for name, level in levels.items() if level != self._level(name)}
        self._is_at_its_end = not slowed
        if not slowed:
            return False
        if now_s - self._sped_up_at < _LONGEST_PATIENCE_S:
            self._patience_s = min(2 * self._patience_s, _LONGEST_PATIENCE_S)
        else:
            self._patience_s = _FIRST_PATIENCE_S
        self._change(slowed, costs, now_s, share)
        return True

    def _costs(self) -> dict[str, float]:
        """Share of one core of each source over the window."""
        first, last = self._window[0], self._window[-1]
        span_s = last.at_s - first.at_s
        return {
            name: (spent_s - first.by_source.get(name, 0.0)) / span_s
            for name, spent_s in last.by_source.items()
        }

    def _habits(self, costs: Mapping[str, float]) -> dict[str, float]:
        """`costs`, but of sources that have changed their pace what they cost since, if more."""
        now = self._window[-1]
        since = {
            name: at_level.share(now.at_s, now.by_source.get(name, 0.0))
            for name, at_level in self._at_level.items()
        }
        return {name: max(cost, since.get(name, 0.0)) for name, cost in costs.items()}

    def _dearest_easy(self, costs: Mapping[str, float], levels: Mapping[str, int]) -> str | None:
        """The source that costs most among those that can still go slower while a node is small."""
        worth = self._worth(costs)
        easy = [name for name in worth if levels.get(name, 0) < last_easy(name)]
        if easy:
            return max(easy, key=lambda name: worth[name])
        is_dear = worth.get(WAITS, 0.0) > _RESERVED_FOR_WAITS * self._budget
        return WAITS if is_dear and levels[WAITS] < LAST_FAIR_WAITS else None

    def _dearest(
        self, costs: Mapping[str, float], levels: Mapping[str, int], expected: float
    ) -> str | None:
        """The same among all. `expected`: share of all sources at these levels."""
        worth = self._worth(costs)
        left = {n: cost for n, cost in worth.items() if levels.get(n, 0) < len(steps(n)) - 1}
        own = costs.get(WAITS, 0.0)
        if expected - own >= self._budget and own <= _RESERVED_FOR_WAITS * self._budget:
            left.pop(WAITS, None)  # without any waits it would not be kept either
        return max(left, key=lambda name: left[name], default=None)

    def _worth(self, costs: Mapping[str, float]) -> dict[str, float]:
        return {n: cost for n, cost in costs.items() if cost > _WORTH_SLOWING * self._budget}

    def _speed_up(self, now_s: float, share: float) -> bool:
        """One source one pace faster, if what that is expected to cost leaves room: those that went
        furthest first, then the waits when they can, for they are the evidence."""
        if now_s - self._changed_at < self._patience_s:
            return False
        costs = self._costs()
        habits = self._habits(costs)
        share += sum(habits.values()) - sum(costs.values())
        slowest_first = sorted(self._levels, key=lambda name: not self._is_beyond_easy(name))
        for name in slowest_first:
            level = self._levels[name]
            if level == self._fastest(name):
                continue
            faster = habits.get(name, 0.0) / relative(name, level - 1)
            if share + faster - habits.get(name, 0.0) <= _ROOM * self._budget:
                self._sped_up_at = now_s
                self._change({name: level - 1}, {name: faster}, now_s, share)
                return True
        return False

    def _is_beyond_easy(self, name: str) -> bool:
        last = LAST_FAIR_WAITS if name == WAITS else last_easy(name)
        return self._levels[name] > last

    def _level(self, name: str) -> int:
        return self._levels.get(name, 0)

    def _change(
        self,
        levels: Mapping[str, int],
        expected: Mapping[str, float],
        now_s: float,
        share: float,
    ) -> None:
        newest = self._window[-1]
        self._window.clear()
        self._window.append(newest)
        self._changes += [
            {
                "mono_s": round(now_s, 3),
                "source": name,
                "from": steps(name)[self._level(name)],
                "to": steps(name)[level],
                "share": round(share, 6),
            }
            for name, level in levels.items()
        ]
        for name in levels:
            spent_s = newest.by_source.get(name, 0.0)
            self._at_level[name] = _AtLevel(newest.at_s, spent_s, expected.get(name, 0.0))
        self._n_changes += len(levels)
        del self._changes[:-_MOST_CHANGES_KEPT]
        self._levels.update(levels)
        self._changed_at = now_s
        self.pace = self._pace()
