"""Passes that look at a part of the ranks: everybody equally often, and nobody's shares change."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.collectors.base import Member, Tick
from slurm_io.collectors.waits import WaitsCollector
from slurm_io.collectors.waits.rounds import Rounds
from slurm_io.store.schema import TABLES
from tests.collectors.real_process import context

SECOND_NS = 1_000_000_000
RUNNING = b"running\n"


@given(
    keys=st.integers(0, 90), turns=st.integers(1, 20), rounds=st.integers(1, 5), seed=st.integers()
)
def test_in_a_round_every_rank_has_its_turn_once(
    keys: int, turns: int, rounds: int, seed: int
) -> None:
    chooser = Rounds(random.Random(seed))
    chooser.turns = turns
    ranks = list(range(keys))
    for _ in range(rounds):
        looks = [chooser.due(ranks) for _ in range(turns)]
        assert Counter(key for look in looks for key in look) == Counter(ranks)
        assert max(map(len, looks)) - min(map(len, looks)) <= 1


@given(seed=st.integers(), turns=st.integers(2, 16))
def test_ranks_that_come_and_go_take_no_turn_from_the_others(seed: int, turns: int) -> None:
    chance = random.Random(seed)
    chooser = Rounds(chance)
    chooser.turns = turns
    looks: Counter[int] = Counter()
    for _ in range(10 * turns):
        guests = chance.sample(range(100, 120), chance.randrange(20))
        looks.update(chooser.due([*range(12), *guests]))
    assert {looks[rank] for rank in range(12)} == {10}


def test_a_lone_rank_is_looked_at_once_a_round_at_any_of_its_passes() -> None:
    chooser = Rounds(random.Random(1))
    chooser.turns = 8
    places = Counter(
        next(place for place in range(8) if place >= 0 and looks[place])
        for looks in ([chooser.due([7]) for _ in range(8)] for _ in range(4000))
    )
    assert all(400 <= places[place] <= 600 for place in range(8))


class Crew:
    """Ranks of which each waits for data all the time; what they do then the test says."""

    def __init__(self, proc_root: Path, ranks: int, turns: int) -> None:
        for rank in range(ranks):
            thread = proc_root / f"{rank + 10}/task/{rank + 10}"
            thread.mkdir(parents=True)
            (thread / "wchan").write_bytes(b"")
        (proc_root / "self").mkdir()
        for name in ("syscall", "wchan"):
            (proc_root / "self" / name).write_bytes(b"")
        self._root = proc_root
        members = [Member(n + 10, 1, 1, "python", n, "rank", n + 10) for n in range(ranks)]
        self.collector = WaitsCollector()
        looks_at = context(members, lambda _pid: ("data_wait", 0))
        self.collector.open(replace(looks_at, proc_root=proc_root))
        self.collector.rounds = Rounds(random.Random(5))
        self.collector.rounds.turns = turns

    def does(self, rank: int, line: bytes) -> None:
        """What its ``syscall`` says from now on."""
        (self._root / f"{rank + 10}/task/{rank + 10}/syscall").write_bytes(line)

    def rows(self) -> dict[int, dict[str, Any]]:
        """Since the last call, by rank."""
        columns = TABLES["waits"].column_names()
        rows = self.collector.collect(Tick(2, 1, 1))
        named = [dict(zip(columns, row, strict=True)) for row in rows]
        return {row["rank"]: row for row in named}


def test_a_rank_has_a_row_of_the_looks_at_it_and_no_others(tmp_path: Path) -> None:
    crew = Crew(tmp_path, ranks=8, turns=4)
    for rank in range(8):
        crew.does(rank, RUNNING)
    for second in range(3):
        crew.collector.sample(second * SECOND_NS)
    seen = crew.rows()
    assert len(seen) == 6  # of eight ranks in three of four turns
    for row in seen.values():
        assert (row["passes"], row["processes"], row["n_cpu"]) == (1, 1, 1)


@settings(max_examples=25, deadline=None)
@given(period_s=st.integers(2, 16), busy=st.floats(0.1, 0.9), turns=st.sampled_from([2, 4, 8, 16]))
def test_shares_are_the_same_at_any_number_of_turns(period_s: int, busy: float, turns: int) -> None:
    """Ranks that compute for a part of each period, one as long as a round among them: a rank seen
    at the same moment of it again and again would have all of it or nothing."""
    chance = random.Random(9)
    chooser = Rounds(random.Random(5))
    chooser.turns = turns
    looks: Counter[int] = Counter()
    hits: Counter[int] = Counter()
    for turn in range(600 * turns):
        second = turn + chance.random()  # as Passes places them
        for rank in chooser.due(range(4)):
            looks[rank] += 1
            hits[rank] += second % period_s < busy * period_s
    error = 4 * (busy * (1 - busy) / 600) ** 0.5
    for rank in range(4):
        assert looks[rank] == 600
        assert hits[rank] / looks[rank] == pytest.approx(busy, abs=error + 0.01)
