"""Failures, lemons, bursts and repairs, from a reservation's history."""

from __future__ import annotations

import pytest

from slurm_io.reservation.history import DONE, HistoryRecord
from slurm_io.reservation.status.failures import WEEK_S, failures_in

NOW_S = 1_000_000_000.0
DAY_S = 86400.0


def failure(days_ago: float, node: str = "n1") -> HistoryRecord:
    return HistoryRecord("failure", NOW_S - days_ago * DAY_S, bad=node)


def test_failures_per_week_over_the_time_that_was_watched() -> None:
    found = failures_in([failure(28), failure(20, "n2"), failure(3)], NOW_S)
    assert len(found.events) == 3
    assert found.per_week == pytest.approx(0.75)


def test_a_short_history_gives_no_rate() -> None:
    assert failures_in([failure(3), failure(2)], NOW_S).per_week is None
    nothing = failures_in([], NOW_S)
    assert (nothing.per_week, nothing.observed_s, nothing.mttr_s) == (None, None, None)


def test_a_swap_and_its_failure_are_one() -> None:
    swap = HistoryRecord("swap", NOW_S - 20 * DAY_S + 600, "n1", "n4", "7", {}, DONE)
    assert len(failures_in([failure(20), swap], NOW_S).events) == 1
    assert len(failures_in([swap], NOW_S).events) == 1


def tried(days_ago: float, outcome: str = "no spare can take over") -> HistoryRecord:
    """A swap of n1 that was rolled back."""
    return HistoryRecord("swap", NOW_S - days_ago * DAY_S, "n1", None, "7", {}, outcome)


def test_a_swap_that_was_rolled_back_is_no_second_failure() -> None:
    """Slurm's time of the trouble, which swaps keep, is hours before the watch's first look."""
    found = failures_in([tried(20), tried(19.8), failure(19.7)], NOW_S)
    assert found.events == (("n1", NOW_S - 20 * DAY_S),)
    assert failures_in([failure(20), tried(19.7)], NOW_S).events == found.events


def test_a_failure_after_a_repair_is_another_one() -> None:
    repaired = HistoryRecord("repair", NOW_S - 19.9 * DAY_S, "n1")
    assert len(failures_in([tried(20), repaired, failure(19.7)], NOW_S).events) == 2


def test_two_failures_that_the_watch_saw_on_one_day_are_two_and_a_swap_joins_its_own() -> None:
    found = failures_in([failure(20), tried(19.72), failure(19.7)], NOW_S)
    times = [at_s for _, at_s in found.events]
    assert times == [NOW_S - 20 * DAY_S, NOW_S - 19.72 * DAY_S]


def test_drills_are_no_failures() -> None:
    drill = HistoryRecord("drill", NOW_S - 20 * DAY_S, "n1", "n4", "7", {}, DONE)
    found = failures_in([drill], NOW_S)
    assert found.events == ()
    assert found.observed_s == 20 * DAY_S


def test_what_lies_far_back_or_ahead_does_not_count() -> None:
    found = failures_in([failure(400), failure(-5), failure(30)], NOW_S)
    assert [node for node, _ in found.events] == ["n1"]
    assert found.observed_s == 30 * DAY_S


def test_lemons_failed_more_often_than_allowed_in_30_days() -> None:
    history = [failure(days, "n2") for days in (60, 25, 20, 10, 5)]
    history += [failure(days, "n3") for days in (24, 12, 2)]
    assert failures_in(history, NOW_S).lemons(NOW_S, 3) == (("n2", 4),)
    assert failures_in(history, NOW_S).lemons(NOW_S, 2) == (("n2", 4), ("n3", 3))


def test_mean_time_to_repair() -> None:
    history = [
        failure(20, "n1"),
        HistoryRecord("repair", NOW_S - 19.5 * DAY_S, bad="n1"),
        failure(10, "n1"),
        HistoryRecord("repair", NOW_S - 9 * DAY_S, bad="n1"),
        HistoryRecord("repair", NOW_S - 8 * DAY_S, bad="n7"),
    ]
    found = failures_in(history, NOW_S)
    assert found.repairs == 2
    assert found.mttr_s == pytest.approx(0.75 * DAY_S)


def weekly(counts: list[int]) -> list[HistoryRecord]:
    """So many failures a week, the oldest week first, each of another node."""
    records = [HistoryRecord("drill", NOW_S - len(counts) * WEEK_S, None)]
    for week, count in enumerate(counts):
        at_s = NOW_S - (len(counts) - week) * WEEK_S
        records += [
            HistoryRecord("failure", at_s + (place + 1) * 3600, bad=f"n{week}-{place}")
            for place in range(count)
        ]
    return records


def test_bursts_beyond_chance_are_seen_and_chance_is_not() -> None:
    bursts = failures_in(weekly([0, 0, 9, 0, 0, 0, 8, 0, 0, 0]), NOW_S)
    assert bursts.dispersion(NOW_S) > 3
    assert failures_in(weekly([1, 2, 1, 3, 0, 2, 1, 1]), NOW_S).dispersion(NOW_S) == 1.0
    assert failures_in(weekly([0, 9, 0]), NOW_S).dispersion(NOW_S) == 1.0
