"""How fast the sampler's sources can go: the steps the governor takes one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WAITS, DISCOVERY, RINGS, FACTS = "waits", "discovery", "rings", "facts"
_WAITS_HZ = (20.0, 10.0, 5.0, 3.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125)
LAST_FAIR_WAITS = _WAITS_HZ.index(0.25)
"""Down to here the waits go before any other source goes beyond its last easy step."""
_LEAST_PASSES_HZ = 1.0
_HOLD_S = 2.0
_FACTORS = (1, 2, 5, 10)
_STEPS: Mapping[str, tuple[float, ...]] = {
    WAITS: _WAITS_HZ,
    DISCOVERY: (1.0, 2.0, 4.0, 8.0, 16.0),
    RINGS: (1, 2, 4, 8),
    FACTS: (1, 2, 4),
    "process": (1, 2, 5, 10, 20, 40),  # a row is of 60 s at most: longer ones the analysis cuts
}


_LAST_EASY: Mapping[str, int] = {
    WAITS: _WAITS_HZ.index(2.0),
    DISCOVERY: 3,
    RINGS: 0,
    FACTS: 0,
    "process": 3,
}


@dataclass(frozen=True)
class Pace:
    """How fast the sources go. `factors`: source -> factor on its period, where it is not 1.

    `waits_hz`: looks a second at each process. `turns`: a pass looks at one of so many parts of the
    ranks, by turns. `hold_s`: for so long the last look at a rank in its step stands for the next.
    """

    waits_hz: float
    discovery_period_s: float = 1.0
    factors: Mapping[str, int] = field(default_factory=dict)
    hold_s: float = 0.0
    turns: int = 1

    @property
    def passes_hz(self) -> float:
        """Passes a second."""
        return self.waits_hz * self.turns

    def factor(self, source: str) -> int:
        """By how much the period of a source is stretched."""
        return self.factors.get(source, 1)


def steps(source: str) -> tuple[float, ...]:
    """Of one source, fastest first: looks a second of the waits, seconds of the discovery, factors
    on the period of any other."""
    return _STEPS.get(source, _FACTORS)


def last_easy(source: str) -> int:
    """The step beyond which a source goes only where the node is too large for the others."""
    return _LAST_EASY.get(source, len(steps(source)) - 1)


def relative(source: str, level: int) -> float:
    """What the source is expected to cost one pace slower, of what it costs at `level`."""
    now, slower = steps(source)[level : level + 2]
    return slower / now if source == WAITS else now / slower


def pace_of(levels: Mapping[str, int], most_waits_hz: float, is_slowed: bool) -> Pace:
    """The pace with each source at its level. `is_slowed`: the waits go slower than was asked for,
    `most_waits_hz`."""
    hz = min(_WAITS_HZ[levels[WAITS]], most_waits_hz)
    others = {name: level for name, level in levels.items() if name not in (WAITS, DISCOVERY)}
    return Pace(
        waits_hz=hz,
        discovery_period_s=steps(DISCOVERY)[levels[DISCOVERY]],
        factors={name: int(steps(name)[level]) for name, level in others.items() if level},
        hold_s=_HOLD_S if is_slowed else 0.0,
        turns=max(1, round(_LEAST_PASSES_HZ / hz)) if is_slowed else 1,
    )
