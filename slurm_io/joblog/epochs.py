"""Step numbers of lines that carry only a rounded epoch.

A trainer that logs every so many steps prints epochs k*L/S, (k+1)*L/S, … for an interval L and S
steps an epoch, rounded to a few digits. Most often only one L and k fit all lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_MOST_TRIES = 20_000


def steps_of_epochs(
    epochs: Sequence[tuple[float, float]], steps_per_epoch: float, most: int
) -> list[int] | None:
    """The steps of consecutive lines, `epochs` = (value, half a unit of its last digit) each.

    None when several intervals fit, or none. `most`: steps of the whole run.
    """
    ranges = [
        ((value - half) * steps_per_epoch, (value + half) * steps_per_epoch)
        for value, half in epochs
    ]
    if not ranges or steps_per_epoch <= 0 or not math.isfinite(steps_per_epoch):
        return None
    fitting: set[tuple[int, int]] = set()
    tries = 0
    low, high = ranges[-1]
    for last in range(max(1, math.ceil(low)), min(math.floor(high), most) + 1):
        for interval in _divisors(last):
            tries += len(ranges)
            if tries > _MOST_TRIES:
                return None
            first = last - interval * (len(ranges) - 1)
            if first > 0 and _fits(ranges, first, interval):
                fitting.add((first, interval))
    if len(ranges) == 1 or len(fitting) != 1:
        return None
    [(first, interval)] = fitting
    return [first + interval * place for place in range(len(ranges))]


def _fits(ranges: Sequence[tuple[float, float]], first: int, interval: int) -> bool:
    steps = (first + interval * place for place in range(len(ranges)))
    return all(low <= step <= high for step, (low, high) in zip(steps, ranges, strict=True))


def _divisors(number: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})
