"""Who held the others: a rank, a node, or each in turn, and in how many steps."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.holding import find_holding
from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.reports.text import render
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.groups import meet, ranks_on
from tests.analysis.stand_in import Job, Rank, StandInStore, one_rank, train


def store_of(wait: Callable[[int, int], float], ranks: int = 8, nodes: int = 4) -> StandInStore:
    group = ranks_on(ranks, nodes)
    meet(group, 200, lambda place, batch: 0.05, wait)
    return Job(group).store()


def holder(wait: Callable[[int, int], float], **shape: int) -> dict[str, Any]:
    return dict(analyse_store(store_of(wait, **shape))["holder"])


def test_one_slow_rank_is_named_with_the_steps_it_held() -> None:
    held = holder(lambda r, k: 0.04 if r == 5 and k % 4 else 0.001)
    assert (held["level"], held["rank"], held["node"]) == ("rank", 5, "n3")
    assert held["share"] > 0.9
    assert (held["steps"], held["of_steps"]) == (150, 199)  # the first is start-up


def test_a_slow_node_is_named_where_its_ranks_share_the_blame() -> None:
    dice = random.Random(1)
    held = holder(lambda r, k: dice.uniform(0.03, 0.05) if r in (2, 3) else 0.001)
    assert (held["level"], held["rank"], held["node"]) == ("node", None, "n2")
    assert held["share"] > 0.9
    assert held["text"].startswith("node n2: ")
    assert {one["rank"] for one in held["ranks"][:2]} == {2, 3}


def test_a_slow_rank_beside_a_quiet_one_of_its_node_is_not_the_node() -> None:
    held = holder(lambda r, k: 0.04 if r == 2 else 0.001)
    assert (held["level"], held["rank"]) == ("rank", 2)


def test_equal_ranks_hold_in_turn() -> None:
    held = holder(lambda r, k: 0.05 if k % 8 == r else 0.02)
    assert held["level"] == "in turn"
    assert held["text"].startswith("the ranks in turn; most by ")


def test_ranks_that_wait_alike_are_not_held_by_the_one_that_is_last_by_a_hair() -> None:
    held = holder(lambda r, k: 0.05 + (0.00001 if r == 3 else 0))
    assert held["level"] == "in turn"
    assert held["text"] == "no rank in particular: all 8 wait alike"


def test_two_ranks_are_enough_to_be_held() -> None:
    held = holder(lambda r, k: 0.04 * r, ranks=2, nodes=2)
    assert (held["level"], held["rank"], held["node"]) == ("rank", 1, "n2")


@pytest.mark.parametrize("wait_s", [0.0, 0.0002])
def test_next_to_nothing_lost_is_held_by_nobody(wait_s: float) -> None:
    assert "holder" not in analyse_store(store_of(lambda r, k: wait_s))


def test_a_single_process_holds_nobody() -> None:
    rank = train(one_rank(0), 200, 0.05, lambda k: (0.05, "storage"))
    assert "holder" not in analyse_store(Job([rank]).store())


def test_the_group_that_lost_most_is_told() -> None:
    first, second = ranks_on(2), ranks_on(2, 1, first=2)
    meet(first, 200, lambda r, k: 0.05, lambda r, k: 0.01 * r)
    meet(second, 200, lambda r, k: 0.06, lambda r, k: 0.05 * r)
    assert analyse_store(Job([*first, *second]).store())["holder"]["rank"] == 3


def test_the_share_of_a_rank_counts_all_gpus_it_held() -> None:
    """A single process that lost as many seconds as the group did lost fewer GPUs' worth."""
    group, alone = ranks_on(3), Rank(7, "n1", 9000, 0)
    meet(group, 200, lambda r, k: 0.05, lambda r, k: 0.04 if r == 1 else 0.0)
    train(alone, 200, 0.083, lambda k: (0.04, "storage"))
    picture = take_picture(Job([*group, alone]).store(), Thresholds())
    shares = {one.rank: one.share for one in picture.where.holders}
    assert shares[1] == pytest.approx(0.75, abs=0.02)
    assert shares[7] == pytest.approx(0.25, abs=0.02)
    holding = find_holding(picture.losses, picture.timeline)
    assert holding is not None and len(holding.unit.procs) == 3


def test_one_line_of_the_text_names_it() -> None:
    report = analyse_store(store_of(lambda r, k: 0.04 if r == 5 else 0.001))
    lines = [line for line in render(report).splitlines() if line.startswith("held by")]
    assert lines == [
        "held by   rank 5 on n3: 100% of what 8 ranks lost together, last in 199 of 199 steps"
    ]
