"""Clocks of nodes, by the steps their ranks make together: told, corrected, or left alone."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.clocks import Offset
from slurm_io.analysis.picture import Picture, take_picture
from slurm_io.analysis.thresholds import Lockstep, Thresholds
from tests.analysis.groups import meet, ranks_on, skew
from tests.analysis.stand_in import EPOCH_NS, NS, Job, Rank


def trained(fast_s: dict[str, float], ranks: int = 4, nodes: int = 4, **more: Any) -> list[Rank]:
    """Ranks that wait unevenly, each a little late after the exchange."""
    group = ranks_on(ranks, nodes)
    dice = random.Random(7)
    meet(group, 150, lambda r, k: 0.05 * dice.uniform(0.9, 1.1),
         lambda r, k: dice.expovariate(100), **more)  # fmt: skip
    for rank in group:
        skew(rank, fast_s.get(rank.node, 0.0))
    return group


def picture_of(ranks: list[Rank]) -> Picture:
    return take_picture(Job(ranks).store(), Thresholds())


def by_node(picture: Picture) -> dict[str, Offset]:
    return {one.node: one for one in picture.clock_offsets}


@settings(max_examples=5)
@given(st.floats(-3, 3))
def test_the_offset_lies_within_its_uncertainty(fast_s: float) -> None:
    found = by_node(picture_of(trained({"n3": fast_s})))
    apart = found["n3"].offset_s if "n3" in found else -found["n1"].offset_s
    sure = found["n3"].uncertainty_s if "n3" in found else found["n1"].uncertainty_s
    assert apart == pytest.approx(fast_s, abs=sure)
    assert sure < 0.05


def test_one_wrong_clock_of_four_is_the_one_that_is_corrected() -> None:
    """Not the other three, though the wrong node's name comes first."""
    found = by_node(picture_of(trained({"n1": 2.0})))
    assert {node: one.is_sure(Lockstep()) for node, one in found.items() if node == "n1"} == {
        "n1": True
    }
    assert not any(one.is_sure(Lockstep()) for node, one in found.items() if node != "n1")


def test_a_clock_that_is_wrong_by_more_than_the_training_lasted_is_not_understood() -> None:
    """Nothing tells two runs from one whose clocks are fifteen minutes apart."""
    picture = picture_of(trained({"n2": 900.0}, ranks=2, nodes=2))
    assert len(picture.losses.units) == 2
    assert picture.clock_offsets == ()


def test_corrected_times_reach_steps_events_and_tables() -> None:
    ranks = trained({}, ranks=3, nodes=3)
    for rank in ranks:
        rank.event("ckpt_save", 0.2)
        rank.batch(0.001, index=150)
        rank.compute(0.05)
        skew(rank, 3.0 if rank.node == "n2" else 0.0)
    picture = picture_of(ranks)
    saves = picture.timeline.events.filter(picture.timeline.events["kind"] == "ckpt_save")
    assert saves.height == 3
    for event in saves.iter_rows(named=True):
        assert abs(event["ts_ns"] - EPOCH_NS - event["start"]) < 0.05 * NS
    for row in picture.causes.rows.iter_rows(named=True):
        assert abs(row["ts_ns"] - EPOCH_NS - row["start"]) < 0.05 * NS
    read = picture.tables.frame("steps", ("ts_ns", "mono_ns"))
    assert ((read["ts_ns"] - EPOCH_NS - read["mono_ns"]).abs() < 0.05 * NS).all()


def test_what_is_off_by_more_than_the_report_resolves_is_told() -> None:
    report = analyse_store(Job(trained({"n4": 2.0})).store())
    [note] = [one for one in report["coverage"]["missing"] if one["source"].startswith("clock")]
    assert note["source"] == "clock of n4"
    assert note["reason"].startswith("2.0")
    assert "ahead of" in note["reason"]


@pytest.mark.parametrize("fast_s", [0.0, 0.2])
def test_clocks_that_agree_well_enough_are_not_spoken_of(fast_s: float) -> None:
    report = analyse_store(Job(trained({"n4": fast_s})).store())
    assert not any(one["source"].startswith("clock") for one in report["coverage"]["missing"])


def test_an_uncertain_offset_is_told_and_nothing_is_corrected() -> None:
    limits = Lockstep()
    unsure = Offset("n2", "n1", 0.8, 0.5, 150)
    assert unsure.is_told(limits)
    assert not unsure.is_sure(limits)
    assert "0.80 s ahead of n1's (± 0.50 s, from 150 steps" in unsure.text(limits)
    assert "too uncertain to correct" in unsure.text(limits)


def test_a_clock_that_moved_meanwhile_is_uncertain() -> None:
    """Set back by 20 ms in the middle: what was right before is wrong after."""
    ranks = trained({}, ranks=2, nodes=2)
    rows = ranks[1].rows
    for row in rows[: len(rows) // 2]:
        row["mono_ns"] += 20_000_000
    [one] = picture_of(ranks).clock_offsets
    assert one.uncertainty_s >= 0.02


def test_ranks_of_one_node_that_begin_apart_make_it_uncertain() -> None:
    """Rank 0 writes a log for 40 ms after each exchange: as far as it goes, a clock may be off."""
    ranks = trained({}, ranks=4, nodes=2)
    late = [rank for rank in ranks if rank.number == 0]
    for row in late[0].rows:
        row["ts_ns"] += 40_000_000
        row["mono_ns"] += 40_000_000
    [one] = picture_of(ranks).clock_offsets
    assert one.uncertainty_s >= 0.035
    assert abs(one.offset_s) <= one.uncertainty_s


def test_nodes_that_share_no_steps_are_not_compared() -> None:
    first, second = ranks_on(2, 1), ranks_on(2, 1, first=2)
    for rank in second:
        rank.node = "n2"
    dice = random.Random(3)
    meet(first, 150, lambda r, k: 0.05 * dice.uniform(0.8, 1.2), lambda r, k: dice.expovariate(50))
    meet(second, 150, lambda r, k: 0.06 * dice.uniform(0.8, 1.2), lambda r, k: dice.expovariate(50))
    assert picture_of([*first, *second]).clock_offsets == ()
