"""Keeps the sampler's own CPU time under its budget by slowing its dearest source first.

What can be slowed: the rate of waits passes, the period of process discovery, and the period of
every collector (:data:`FACTORS`). What cannot: draining the rings, writing. The share of one core
is averaged over a window of up to 20 s that starts anew with each change. Going slower takes 5 s of
evidence; then the dearest source goes one pace slower, and again the dearest of those that remain,
until what they are expected to cost fits the budget. Going faster takes 20 s below the budget with
room for what it is expected to add; each failed attempt to go faster doubles the wait for the next.

Waits are the evidence: they go below two passes a second only when every other source has slowed
down and they alone still cost a third of the budget. Once they are slowed, ranks that compute are
looked at less often than those that wait (:attr:`Pace.hold_s`).

What was spent below the budget may be spent later, and every job starts with a small credit: the
few samples of a short job are all the evidence there will be, while over a long job the credit
is nothing. Deterministic: the clock and the CPU time come from the caller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_WINDOW_S = 20.0
_EVIDENCE_S = 5.0
_SETTLING_S = 3.0  # imports and the first look at everything are no habit
_ROOM = 0.85  # of the budget, with what going faster is expected to add
_WORTH_SLOWING = 0.03  # of the budget: below, nothing would be won
_RESERVED_FOR_WAITS = 1 / 3
_FIRST_PATIENCE_S = 20.0
_LONGEST_PATIENCE_S = 640.0
_MOST_CHANGES_KEPT = 100
_HOLD_S = 2.0
CREDIT_S = 0.3  # 0.3 % of one core over 100 s

WAITS, DISCOVERY = "waits", "discovery"
_WAITS_HZ = (20.0, 10.0, 5.0, 3.0, 2.0, 1.0, 0.5, 0.25)
_LAST_EASY = _WAITS_HZ.index(2.0)
_DISCOVERY_PERIODS_S = (1.0, 2.0, 4.0, 8.0)
FACTORS = (1, 2, 5, 10)
"""Paces of a collector, fastest first: factors on its period."""


@dataclass(frozen=True)
class Pace:
    """How fast the sources go. `factors`: collector -> factor on its period, where it is not 1.

    `hold_s`: for so long the last look at a rank in its step stands for the next ones.
    """

    waits_hz: float
    discovery_period_s: float = 1.0
    factors: Mapping[str, int] = field(default_factory=dict)
    hold_s: float = 0.0

    def factor(self, collector: str) -> int:
        """By how much that collector's period is stretched."""
        return self.factors.get(collector, 1)


@dataclass(frozen=True)
class _Reading:
    at_s: float
    cpu_s: float
    by_source: Mapping[str, float]


class Governor:
    """Call :meth:`update` once a second; read :attr:`pace`. A source is whatever `by_source` of
    :meth:`update` names: :data:`WAITS`, :data:`DISCOVERY`, and collectors."""

    def __init__(self, budget_share: float, most_waits_hz: float) -> None:
        self._budget = budget_share
        self._most_waits_hz = most_waits_hz
        # A step above what was asked for would change nothing: begin at the last that is not.
        asked = sum(1 for step in _WAITS_HZ if step >= most_waits_hz) - 1
        self._fastest_waits = max(0, asked)
        self._levels = {WAITS: self._fastest_waits, DISCOVERY: 0}
        self._start_s: float | None = None
        self._balance_s = CREDIT_S
        self._window: deque[_Reading] = deque()
        self._patience_s = _FIRST_PATIENCE_S
        self._changed_at = float("-inf")
        self._sped_up_at = float("-inf")
        self._changes: list[dict[str, Any]] = []
        self._n_changes = 0
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
        if span_s < _EVIDENCE_S:
            return False
        share = (cpu_s - first.cpu_s) / span_s
        if share > self._budget and self._balance_s < 0:
            return self._slow_down(now_s, share)
        return share < self._budget and span_s >= _WINDOW_S - 1 and self._speed_up(now_s, share)

    def to_dict(self) -> dict[str, Any]:
        """``governor`` of self.json; the last changes with their monotonic time and reason.

        ``paces`` are those of the sources that are slower than they could be: passes a second,
        seconds, or the factor on the period.
        """
        slowed = [name for name in self._levels if self._levels[name] > self._fastest(name)]
        return {
            "budget_share": self._budget,
            "level": sum(self._levels[name] - self._fastest(name) for name in slowed),
            "paces": {name: _steps(name)[self._levels[name]] for name in slowed},
            "changes": list(self._changes),
            "changes_total": self._n_changes,
        }

    def _pace(self) -> Pace:
        levels = dict(self._levels)
        waits = levels.pop(WAITS)
        discovery = levels.pop(DISCOVERY)
        return Pace(
            waits_hz=min(_WAITS_HZ[waits], self._most_waits_hz),
            discovery_period_s=_DISCOVERY_PERIODS_S[discovery],
            factors={name: FACTORS[level] for name, level in levels.items() if level},
            hold_s=_HOLD_S if waits > self._fastest_waits else 0.0,
        )

    def _fastest(self, name: str) -> int:
        return self._fastest_waits if name == WAITS else 0

    def _remember(self, reading: _Reading) -> None:
        if self._window:
            last = self._window[-1]
            allowed_s = self._budget * (reading.at_s - last.at_s)
            spent_s = reading.cpu_s - last.cpu_s
            self._balance_s = min(CREDIT_S, self._balance_s + allowed_s - spent_s)
        self._window.append(reading)
        while reading.at_s - self._window[0].at_s > _WINDOW_S:
            self._window.popleft()

    def _slow_down(self, now_s: float, share: float) -> bool:
        """The dearest source one pace slower, and so on until the rest should fit the budget."""
        costs, levels, expected = self._costs(), dict(self._levels), share
        while expected > self._budget:
            source = self._dearest(costs, levels)
            if source is None:
                break
            before = costs[source]
            costs[source] = before * _relative(source, levels.get(source, 0))
            expected -= before - costs[source]
            levels[source] = levels.get(source, 0) + 1
        slowed = {name: level for name, level in levels.items() if level != self._level(name)}
        if not slowed:
            return False
        if now_s - self._sped_up_at < _LONGEST_PATIENCE_S:
            self._patience_s = min(2 * self._patience_s, _LONGEST_PATIENCE_S)
        else:
            self._patience_s = _FIRST_PATIENCE_S
        self._change(slowed, now_s, share)
        return True

    def _costs(self) -> dict[str, float]:
        """Share of one core of each source over the window."""
        first, last = self._window[0], self._window[-1]
        span_s = last.at_s - first.at_s
        return {
            name: (spent_s - first.by_source.get(name, 0.0)) / span_s
            for name, spent_s in last.by_source.items()
        }

    def _dearest(self, costs: Mapping[str, float], levels: Mapping[str, int]) -> str | None:
        """The source that costs most among those that can still go slower."""
        open_to_all = {
            name: cost
            for name, cost in costs.items()
            if cost > _WORTH_SLOWING * self._budget
            and levels.get(name, 0) < (_LAST_EASY if name == WAITS else len(_steps(name)) - 1)
        }
        if open_to_all:
            return max(open_to_all, key=lambda name: open_to_all[name])
        is_dear = costs.get(WAITS, 0.0) > _RESERVED_FOR_WAITS * self._budget
        return WAITS if is_dear and levels[WAITS] < len(_WAITS_HZ) - 1 else None

    def _speed_up(self, now_s: float, share: float) -> bool:
        """One source one pace faster, if what that is expected to cost leaves room: the waits when
        they can, for they are the evidence, else the first that does."""
        if now_s - self._changed_at < self._patience_s:
            return False
        costs = self._costs()
        for name, level in self._levels.items():
            if level == self._fastest(name):
                continue
            more = costs.get(name, 0.0) * (1 / _relative(name, level - 1) - 1)
            if share + more <= _ROOM * self._budget:
                self._sped_up_at = now_s
                self._change({name: level - 1}, now_s, share)
                return True
        return False

    def _level(self, name: str) -> int:
        return self._levels.get(name, 0)

    def _change(self, levels: Mapping[str, int], now_s: float, share: float) -> None:
        newest = self._window[-1]
        self._window.clear()
        self._window.append(newest)
        self._changes += [
            {
                "mono_s": round(now_s, 3),
                "source": name,
                "from": _steps(name)[self._level(name)],
                "to": _steps(name)[level],
                "share": round(share, 6),
            }
            for name, level in levels.items()
        ]
        self._n_changes += len(levels)
        del self._changes[:-_MOST_CHANGES_KEPT]
        self._levels.update(levels)
        self._changed_at = now_s
        self.pace = self._pace()


def _steps(name: str) -> tuple[float, ...]:
    if name == WAITS:
        return _WAITS_HZ
    return _DISCOVERY_PERIODS_S if name == DISCOVERY else FACTORS


def _relative(name: str, level: int) -> float:
    """What the source is expected to cost one pace slower, of what it costs at `level`."""
    now, slower = _steps(name)[level : level + 2]
    return slower / now if name == WAITS else now / slower
