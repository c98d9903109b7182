"""Whether the first part of every cycle differs from its rest more than chance: rotations.

For what begins again and again in the same way (a save every so many steps), moving one series
against the other says nothing: moved by a whole cycle they meet as before. Instead the values of
each cycle are rotated by an amount of its own, drawn anew each time, which keeps how neighbouring
values resemble one another, and counted is how often the first parts sum up to as much.
p = (1 + so many) / (1 + turns); the draws come from a fixed seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

_SEED = 20_080_229


@dataclass(frozen=True)
class Cycle:
    """Values of one cycle in order of time; the first `head` of them are the ones in question."""

    values: tuple[float, ...]
    head: int

    @property
    def is_usable(self) -> bool:
        """It has both parts."""
        return 0 < self.head < len(self.values)


def rotation_test(cycles: Sequence[Cycle], turns: int) -> float | None:
    """p of "the heads are larger than chance makes them"; None without a usable cycle."""
    usable = [one for one in cycles if one.is_usable]
    if not usable:
        return None
    sums = [list(accumulate((*one.values, *one.values), initial=0.0)) for one in usable]
    unmoved = sum(line[one.head] for one, line in zip(usable, sums, strict=True))
    chance = random.Random(_SEED)
    slack = 1e-9 * max(1.0, abs(unmoved))
    as_large = 0
    for _ in range(turns):
        total = 0.0
        for one, line in zip(usable, sums, strict=True):
            start = int(chance.random() * len(one.values))
            total += line[start + one.head] - line[start]
        as_large += total >= unmoved - slack
    return (1 + as_large) / (1 + turns)
