"""The rotation test: false alarms and power on cycles of autocorrelated waits."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from slurm_io.analysis.alignment.rotation_test import Cycle, rotation_test

FALSE_ALARM = 0.01


def waits(chance: random.Random, length: int, memory: float) -> list[float]:
    """Mostly small, now and then a burst: as data waits are."""
    step = (1 - memory * memory) ** 0.5
    value, found = chance.gauss(0, 1), []
    for _ in range(length):
        found.append(max(0.0, value - 0.5))
        value = memory * value + step * chance.gauss(0, 1)
    return found


def cycles(chance: random.Random, count: int, memory: float, extra: float = 0.0) -> list[Cycle]:
    """Cycles of about 60 s whose first 15 s wait `extra` longer."""
    found = []
    for _ in range(count):
        length, head = chance.randint(50, 70), chance.randint(12, 18)
        values = waits(chance, length, memory)
        raised = [value + extra * (at < head) for at, value in enumerate(values)]
        found.append(Cycle(tuple(raised), head))
    return found


def test_false_alarms_stay_below_the_stated_rate() -> None:
    tries = alarms = 0
    for memory in (0.0, 0.6, 0.9):
        chance = random.Random(f"{memory}")
        for _ in range(250):
            p = rotation_test(cycles(chance, 8, memory), 299)
            tries += 1
            alarms += p is not None and p <= FALSE_ALARM
    assert alarms <= tries * FALSE_ALARM + 4 * (tries * FALSE_ALARM) ** 0.5


def test_power() -> None:
    """Waits as much longer as they vary: nearly always seen over ten saves."""
    chance, seen = random.Random(1), 0
    for _ in range(60):
        p = rotation_test(cycles(chance, 10, 0.6, extra=0.5), 299)
        seen += p is not None and p <= FALSE_ALARM
    assert seen >= 50


def test_a_calmer_head_is_no_alarm() -> None:
    chance = random.Random(2)
    p = rotation_test(cycles(chance, 10, 0.6, extra=-0.3), 299)
    assert p is not None
    assert p > 0.5


def test_nothing_usable_is_no_p() -> None:
    assert rotation_test([], 99) is None
    assert rotation_test([Cycle((1.0, 2.0), 0), Cycle((1.0, 2.0), 2)], 99) is None


@given(st.lists(st.tuples(st.lists(st.floats(0, 1), min_size=2, max_size=9), st.integers(1, 8))))
def test_p_is_a_probability_and_repeats(parts: list[tuple[list[float], int]]) -> None:
    made = [Cycle(tuple(values), head) for values, head in parts]
    p = rotation_test(made, 19)
    assert p == rotation_test(made, 19)
    assert p is None or 0.05 <= p <= 1


def test_equal_values_are_never_an_alarm() -> None:
    assert rotation_test([Cycle((0.1,) * 20, 5)] * 8, 99) == 1.0
