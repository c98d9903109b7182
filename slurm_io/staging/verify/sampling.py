"""Which files a sample looks at, and what a sample can and cannot prove.

Chosen from the kernel's randomness: a bad copy must not be able to know where nobody looks.
"""

from __future__ import annotations

import os
from collections.abc import Callable

Draw = Callable[[int], int]


def draw(below: int) -> int:
    """A number from 0 to below - 1; its bias (below / 2**64) is nothing here."""
    return int.from_bytes(os.urandom(8), "little") % below


def choose(count: int, size: int, pick: Draw = draw) -> list[int]:
    """`size` different numbers below `count` in random order (all of them when size >= count)."""
    if size * 3 >= count:
        numbers = list(range(count))
        for last in range(count - 1, 0, -1):
            other = pick(last + 1)
            numbers[last], numbers[other] = numbers[other], numbers[last]
        return numbers[:size]
    chosen: dict[int, None] = {}
    while len(chosen) < size:
        chosen[pick(count)] = None
    return list(chosen)


def chance_to_see(count: int, size: int, bad: int) -> float:
    """Probability that a random sample of `size` of `count` files holds one of `bad` bad ones."""
    if bad <= 0 or size <= 0:
        return 0.0
    missed = 1.0
    for drawn in range(min(size, count)):
        missed *= max(0, count - bad - drawn) / (count - drawn)
    return 1.0 - missed


def what_it_proves(count: int, size: int) -> str:
    """One line for a person: the sample, and its chance to see 1, 1 % and 5 % bad files."""
    if size >= count:
        return f"all {count} files"
    shares = dict.fromkeys(b for b in (1, count // 100, count // 20) if b >= 1)
    chances = ", ".join(f"{bad} bad: {_percent(chance_to_see(count, size, bad))}" for bad in shares)
    return f"{size} of {count} files (chance to see one of {chances})"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share < 0.9995 else "> 99.9 %"
