"""Whose turn it is when a pass looks at a part of the ranks only.

A round is as many passes as there are turns; in it every rank has one turn, at a pass that is drawn
anew by chance: in a fixed order a rank whose steps last as long as a round would be seen at the
same moment of its step for ever.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from random import Random
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


class Rounds:
    """`turns`: passes in a round, from the next round on; 1 = all at every pass, at once."""

    def __init__(self, chance: Random) -> None:
        self.turns = 1
        self._chance = chance
        self._turn_of: dict[Hashable, int] = {}
        self._turn = self._last_turn = 0

    def due(self, keys: Sequence[Key]) -> Sequence[Key]:
        """Those of `keys` that this pass looks at. New ones have a turn in what is left of the
        round."""
        if self.turns == 1:
            self._turn = self._last_turn = 0
            return keys
        if self._turn == self._last_turn:
            self._begin(keys)
        for key in keys:
            if key not in self._turn_of:
                self._turn_of[key] = self._chance.randrange(self._turn, self._last_turn)
        found = [key for key in keys if self._turn_of[key] == self._turn]
        self._turn += 1
        return found

    def _begin(self, keys: Sequence[Hashable]) -> None:
        """Spread over the turns as evenly as their number allows."""
        self._turn, self._last_turn = 0, self.turns
        shuffled = self._chance.sample(keys, len(keys))
        each, offset = self.turns / max(1, len(keys)), self._chance.random()
        self._turn_of = {key: int((place + offset) * each) for place, key in enumerate(shuffled)}
