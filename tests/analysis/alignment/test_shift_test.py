"""The shift test: how often it cries wolf, and how often it sees the wolf."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.analysis.alignment.shift_test import (
    Marks,
    core,
    count_runs,
    episodes,
    hit_by_chance,
    reach_of,
    runs_hit,
    shift_test,
)
from slurm_io.analysis.thresholds import Alignment
from tests.analysis.alignment.simulated import (
    World,
    bursts,
    caused,
    periodic,
    rising,
    wandering,
)

LIMITS = Alignment()
PAIRS = 210  # of each world: 2,100 in all
WORLDS = {
    "short bursts": World(bursts(0.05, 2), bursts(0.03, 2)),
    "long bursts": World(bursts(0.15, 20), bursts(0.1, 15)),
    "very long bursts": World(bursts(0.2, 60), bursts(0.2, 60), bins=1200),
    "wandering": World(wandering(0.98, 1.2), wandering(0.97, 1.5)),
    "short run": World(bursts(0.08, 4), wandering(0.9, 1.3), bins=330),
    "both periodic": World(periodic(60, 3), periodic(45, 2)),
    "same period": World(periodic(50, 4, jitter=1), periodic(50, 3, jitter=1)),
    "both rising": World(rising(0.05), rising(0.08)),
    "gaps": World(bursts(0.1, 5), bursts(0.1, 5), seen=0.5),
    "read mostly in drops": World(bursts(0.1, 3), bursts(0.2, 5), seen=0.1, reads_in_drops=True),
}


def p_of(pair: Marks) -> float:
    reach = reach_of([pair.length], LIMITS.least_reach, LIMITS.most_reach)
    assert reach is not None
    found = shift_test([pair], reach)
    p: float | None = found.p
    return 1.0 if p is None else p


def most_allowed(tries: int) -> float:
    """Four standard errors above the stated rate: once in 30,000 runs of this test by chance, and
    the seed is fixed."""
    rate = LIMITS.false_alarm
    return tries * rate + 4 * (tries * rate * (1 - rate)) ** 0.5


@pytest.fixture(scope="module")
def alarms() -> dict[str, int]:
    """False alarms of each world in PAIRS pairs."""
    found = {}
    for name, world in WORLDS.items():
        chance = random.Random(name)
        found[name] = sum(p_of(world.pair(chance)) <= LIMITS.false_alarm for _ in range(PAIRS))
    return found


@pytest.mark.parametrize("name", WORLDS)
def test_false_alarms_stay_below_the_stated_rate(name: str, alarms: dict[str, int]) -> None:
    assert alarms[name] <= most_allowed(PAIRS)


def test_false_alarms_of_all_worlds_together_do_too(alarms: dict[str, int]) -> None:
    assert len(alarms) * PAIRS >= 2000
    assert sum(alarms.values()) <= most_allowed(len(alarms) * PAIRS)


def test_many_mounts_do_not_make_a_false_alarm_likelier() -> None:
    chance, alarms = random.Random(3), 0
    for _ in range(100):
        drops = bursts(0.08, 4)(chance, 900)
        known = (1 << 900) - 1
        pairs = [Marks(900, drops, bursts(0.05, 3)(chance, 900), known) for _ in range(12)]
        found = shift_test(pairs, 300)
        alarms += found.p is not None and found.p <= LIMITS.false_alarm
    assert alarms <= most_allowed(100)


# What docs/alignment.md states, less three standard errors of 100 tries.
@pytest.mark.parametrize(
    ("bins", "share", "least"),
    [(1800, 1.0, 0.9), (1800, 0.5, 0.85), (1800, 0.25, 0.4), (600, 1.0, 0.7)],
)
def test_power(bins: int, share: float, least: float) -> None:
    chance, seen = random.Random(f"{bins} {share}"), 0
    for _ in range(100):
        seen += p_of(caused(chance, bins, share, bursts(0.04, 2))) <= LIMITS.false_alarm
    assert seen >= 100 * least


def test_the_best_of_several_is_named() -> None:
    chance = random.Random(5)
    true = caused(chance, 900, 1.0, bursts(0.04, 2))
    other = Marks(900, true.drops, bursts(0.04, 2)(chance, 900), true.known)
    assert shift_test([other, true, other], 300).best == 1


def test_many_nodes_each_slow_now_and_then_are_seen_together() -> None:
    """Every drop has its own node: none of them alone meets more than a 20th of the drops."""
    chance = random.Random(6)
    known, drops, spikes = (1 << 900) - 1, 0, [0] * 20
    for at in chance.sample(range(10, 890), 40):
        drops |= 3 << at
        spikes[chance.randrange(20)] |= 1 << at
    for node in range(20):
        spikes[node] |= bursts(0.01, 1)(chance, 900)
    found = shift_test([Marks(900, drops, one, known) for one in spikes], 300)
    assert found.p is not None
    assert found.p <= LIMITS.false_alarm


def test_a_second_of_delay_is_still_aligned() -> None:
    chance = random.Random(8)
    pair = caused(chance, 1800, 1.0, bursts(0.04, 2))
    late = Marks(1800, pair.drops, (pair.spikes << 1) & pair.known, pair.known)
    assert p_of(late) <= LIMITS.false_alarm


def test_nothing_to_meet_is_no_p() -> None:
    known = (1 << 900) - 1
    assert shift_test([], 300).p is None
    assert shift_test([Marks(900, 0, 0b110, known)], 300).p is None
    assert shift_test([Marks(900, 1 << 400, 0, known)], 300).p is None
    assert shift_test([Marks(900, 1 << 400, known, known)], 300).p is None
    assert shift_test([Marks(900, 1 << 400, 0, 0)], 300).p is None


def test_reach_is_a_quarter_and_a_short_run_has_none() -> None:
    assert reach_of([299], 100, 300) is None
    assert reach_of([300, 5000], 100, 300) == 100
    assert reach_of([800], 100, 300) == 200
    assert reach_of([5000], 100, 300) == 300
    assert reach_of([], 100, 300) is None


BITS = st.integers(min_value=0, max_value=(1 << 60) - 1)


@given(BITS, BITS)
def test_runs_hit_counts_stretches_with_a_spike(runs: int, spikes: int) -> None:
    text = format(runs, "060b")[::-1]
    hit, at = 0, 0
    while (at := text.find("1", at)) >= 0:
        end = text.find("0", at) if "0" in text[at:] else len(text)
        hit += any(spikes >> bit & 1 for bit in range(at, end))
        at = end
    assert runs_hit(runs, spikes) == hit
    assert runs_hit(runs, runs) == count_runs(runs)


@given(BITS)
def test_episodes_close_single_gaps_only(marks: int) -> None:
    closed = episodes(marks)
    assert closed & marks == marks
    assert "101" not in format(closed & ~1, "b") or count_runs(closed) <= count_runs(marks)
    added = closed & ~marks
    assert added & (marks << 1) & (marks >> 1) == added


@given(BITS, st.integers(min_value=0, max_value=25))
def test_the_core_leaves_out_both_ends(marks: int, reach: int) -> None:
    kept = core(marks, 60, reach)
    assert kept == sum(1 << bit for bit in range(reach, 60 - reach) if marks >> bit & 1)


def test_chance_is_the_mean_over_shifts() -> None:
    every_tenth = sum(1 << bit for bit in range(0, 900, 10))
    assert hit_by_chance(1 << 450, every_tenth, 100) == pytest.approx(0.1, abs=0.06)
    assert hit_by_chance(1 << 450, (1 << 900) - 1, 100) == 1.0
