"""Keeps the sampler's own CPU time under its budget by slowing the dearest source first.

Four knobs: the rate of waits passes, the period of process discovery, the periods of the process
table and of the GPUs. The share of one core is averaged over a window of up to 20 s that starts
anew with each change; going slower takes 5 s of evidence, going faster 20 s of staying under half
the budget, and each failed attempt to go faster doubles the wait for the next.

What was spent below the budget may be spent later, and every job starts with a small credit: the
few samples of a short job are all the evidence there will be, while over a long job the credit
is nothing. Deterministic: the clock and the CPU time come from the caller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_WINDOW_S = 20.0
_EVIDENCE_S = 5.0
_SETTLING_S = 3.0  # imports and the first look at everything are no habit
_FAR_OVER = 3.0
_UNDER = 0.5
_FIRST_PATIENCE_S = 20.0
_LONGEST_PATIENCE_S = 640.0
_MOST_CHANGES_KEPT = 100
CREDIT_S = 0.3  # 0.3 % of one core over 100 s

WAITS, DISCOVERY, PROCESS, GPU = "waits", "discovery", "process", "gpu"

STEPS: dict[str, tuple[float, ...]] = {
    WAITS: (20.0, 10.0, 5.0, 3.0, 2.0, 1.0),  # passes a second
    DISCOVERY: (1.0, 2.0, 4.0, 8.0),  # seconds
    PROCESS: (1, 2, 5, 10),  # factor on its period
    GPU: (1, 2, 5, 10),  # the same
}
"""Each source's paces, fastest first. The last of WAITS is for being far over the budget, when the
others have slowed down already."""


@dataclass(frozen=True)
class Pace:
    """How fast the sources go. Periods are factors on a collector's own period."""

    waits_hz: float
    discovery_period_s: float = 1.0
    process_factor: int = 1
    gpu_factor: int = 1


@dataclass(frozen=True)
class _Reading:
    at_s: float
    cpu_s: float
    by_source: Mapping[str, float]


class Governor:
    """Call :meth:`update` once a second; read :attr:`pace`."""

    def __init__(self, budget_share: float, most_waits_hz: float) -> None:
        self._budget = budget_share
        self._most_waits_hz = most_waits_hz
        # A step above what was asked for would change nothing: begin at the last that is not.
        asked = sum(1 for step in STEPS[WAITS] if step >= most_waits_hz) - 1
        self._fastest = {**dict.fromkeys(STEPS, 0), WAITS: max(0, asked)}
        self._levels = dict(self._fastest)
        self._start_s: float | None = None
        self._balance_s = CREDIT_S
        self._window: deque[_Reading] = deque()
        self._patience_s = _FIRST_PATIENCE_S
        self._changed_at = float("-inf")
        self._sped_up_at = float("-inf")
        self._changes: list[dict[str, Any]] = []
        self._n_changes = 0

    @property
    def pace(self) -> Pace:
        """What is allowed now."""
        now = {name: STEPS[name][level] for name, level in self._levels.items()}
        return Pace(
            waits_hz=min(now[WAITS], self._most_waits_hz),
            discovery_period_s=now[DISCOVERY],
            process_factor=int(now[PROCESS]),
            gpu_factor=int(now[GPU]),
        )

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
        if share < _UNDER * self._budget and span_s >= _WINDOW_S - 1:
            return self._speed_up(now_s, share)
        return False

    def to_dict(self) -> dict[str, Any]:
        """``governor`` of self.json; the last changes with their monotonic time and reason."""
        return {
            "budget_share": self._budget,
            "level": sum(self._levels[name] - self._fastest[name] for name in STEPS),
            "changes": list(self._changes),
            "changes_total": self._n_changes,
        }

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
        is_far_over = share > _FAR_OVER * self._budget
        source = self._dearest(is_far_over)
        if source is None:
            return False
        if now_s - self._sped_up_at < _LONGEST_PATIENCE_S:
            self._patience_s = min(2 * self._patience_s, _LONGEST_PATIENCE_S)
        else:
            self._patience_s = _FIRST_PATIENCE_S
        return self._change(source, self._levels[source] + 1, now_s, share)

    def _dearest(self, is_far_over: bool) -> str | None:
        """The source that cost most in the window among those that can still go slower."""
        first, last = self._window[0].by_source, self._window[-1].by_source
        floors = {name: len(steps) - 1 for name, steps in STEPS.items()}
        costs = {name: last.get(name, 0.0) - first.get(name, 0.0) for name in STEPS}
        others = [name for name in STEPS if name != WAITS and costs[name] > 0]
        is_last_resort = all(self._levels[name] == floors[name] for name in others)
        floors[WAITS] -= 0 if is_far_over and is_last_resort else 1
        costs = {
            name: cost
            for name, cost in costs.items()
            if cost > 0 and self._levels[name] < floors[name]
        }
        return max(costs, key=lambda name: costs[name]) if costs else None

    def _speed_up(self, now_s: float, share: float) -> bool:
        slowed = [name for name, level in self._levels.items() if level > self._fastest[name]]
        if not slowed or now_s - self._changed_at < self._patience_s:
            return False
        self._sped_up_at = now_s
        source = slowed[0]  # waits first: they are the evidence
        return self._change(source, self._levels[source] - 1, now_s, share)

    def _change(self, source: str, level: int, now_s: float, share: float) -> bool:
        newest = self._window[-1]
        self._window.clear()
        self._window.append(newest)
        self._changes.append(
            {
                "mono_s": round(now_s, 3),
                "source": source,
                "from": STEPS[source][self._levels[source]],
                "to": STEPS[source][level],
                "share": round(share, 6),
            }
        )
        self._n_changes += 1
        del self._changes[:-_MOST_CHANGES_KEPT]
        self._levels[source] = level
        self._changed_at = now_s
        return True
