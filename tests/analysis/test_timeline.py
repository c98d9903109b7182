"""Where each process's time went: evaluation apart, gaps found, windows opened and closed."""

from __future__ import annotations

import pytest

from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.timeline import Timeline, read_timeline
from tests.analysis.stand_in import Job, Rank, one_rank, train


def timeline_of(*ranks: Rank) -> Timeline:
    return read_timeline(Tables(Job(list(ranks)).store()))


def test_every_second_of_the_window_has_one_name() -> None:
    rank = one_rank()
    for epoch in range(2):
        rank.event("epoch_start", 0.3)
        for k in range(50):
            rank.batch(0.1 if k else 1.0, index=k, epoch=epoch)
            rank.compute(0.05)
            if k % 20 == 10:
                rank.event("ckpt_save", 0.7)
        rank.event("epoch_end", 0.2)
    rank.batch(0.1, index=0, epoch=2)
    rank.compute(0.05)
    rank.event("exit", 0.0)
    [process] = timeline_of(rank).processes
    assert process.data_wait_s == pytest.approx(98 * 0.1 + 1.0 + 0.1)
    assert process.first_batch_s == pytest.approx(1.1)
    assert process.ckpt_blocking_s == pytest.approx(4 * 0.7)
    assert process.other_s == pytest.approx(0.3 + 2 * 0.2)
    assert process.compute_s == pytest.approx(101 * 0.05)
    assert process.window_s == pytest.approx(rank.now - 101.3)
    assert process.startup_s == pytest.approx(101.3 - 97.0)


@pytest.mark.parametrize(
    ("ticks", "startup_s"),
    [
        (9000, 101.3 - 90.0),
        (9800, 101.3 - 97.0),  # the machine slept: that clock is ahead
        (0, 101.3 - 97.0),
        ("9000", 101.3 - 97.0),
    ],
)
def test_start_up_counts_from_the_start_of_the_process(ticks: object, startup_s: float) -> None:
    rank = one_rank()
    for k in range(50):
        rank.batch(0.1 if k else 1.0, index=k)
        rank.compute(0.05)
    store = Job([rank]).store()
    [node] = store.nodes.values()
    opened = timeline_of(rank).processes[0]
    node.meta["ranks"][0]["starttime"] = ticks
    [process] = read_timeline(Tables(store)).processes
    assert process.startup_s - opened.startup_s == pytest.approx(startup_s - (101.3 - 97.0))
    assert process.training_s == opened.training_s


def test_a_validation_loader_is_evaluation() -> None:
    rank = one_rank()
    for epoch in range(3):
        for k in range(40):
            rank.batch(0.01, index=k, epoch=epoch)
            rank.compute(0.05)
        rank.event("epoch_end", 0.05)
        rank.event("epoch_start", 0.2)
        for k in range(10):
            rank.batch(0.1, index=k, epoch=epoch, loader=1)
            rank.compute(0.02, step=False)
        rank.event("epoch_end", 0.05)
    timeline = timeline_of(rank)
    [process] = timeline.processes
    # The third evaluation lies behind the last training step and outside the window.
    assert process.eval_s == pytest.approx(2 * (0.2 + 10 * 0.12 + 0.05))
    assert process.data_wait_s == pytest.approx(119 * 0.01)
    assert process.steps == 120
    assert set(timeline.rows["loader"]) == {0}


def test_gradient_accumulation_is_one_step_of_several_batches() -> None:
    rank = one_rank()
    for k in range(80):
        rank.batch(0.01, index=k)
        rank.compute(0.05, step=k % 4 == 3)
    [process] = timeline_of(rank).processes
    assert (process.steps, process.batches, process.eval_s) == (20, 80, 0)


def test_a_loop_that_is_one_batch_ahead_loses_no_step_where_a_pass_ends() -> None:
    """accelerate fetches the next batch before it hands one out: two come before a pass's first
    step, and its last two steps follow one another."""
    rank = one_rank()
    for epoch in range(5):
        rank.batch(0.01, index=0, epoch=epoch)
        for k in range(1, 20):
            rank.batch(0.01, index=k, epoch=epoch)
            rank.compute(0.05)
        rank.compute(0.05)
        rank.event("epoch_end", 0.0)
    [process] = timeline_of(rank).processes
    assert (process.steps, process.batches) == (99, 100)  # no batch comes behind the very last


def test_two_optimizers_make_one_step_of_a_batch() -> None:
    rank = one_rank()
    for k in range(60):
        rank.batch(0.01, index=k)
        rank.compute(0.05)
        rank.compute(0.01)
    [process] = timeline_of(rank).processes
    assert (process.steps, process.batches) == (60, 60)


def test_without_an_optimizer_every_loader_trains() -> None:
    rank = one_rank()
    for k in range(50):
        rank.batch(0.01, index=k, loader=k % 2)
        rank.compute(0.05, step=False)
    [process] = timeline_of(rank).processes
    assert (process.steps, process.stepped, process.eval_s) == (50, False, 0)


def test_two_training_loaders_in_one_step_both_train() -> None:
    rank = one_rank()
    for k in range(50):
        rank.batch(0.01, index=k, loader=0)
        rank.batch(0.02, index=k, loader=1)
        rank.compute(0.05)
    [process] = timeline_of(rank).processes
    assert process.data_wait_s == pytest.approx(49 * 0.01 + 50 * 0.02)


def test_a_last_pass_cut_short_still_trains() -> None:
    rank = train(one_rank(), 50, 0.05, lambda k: (0.01, "cpu"))
    rank.batch(2.0, index=0, epoch=1)
    [process] = timeline_of(rank).processes
    assert process.eval_s == 0
    assert process.data_wait_s == pytest.approx(49 * 0.01 + 2.0)


def test_a_ring_overrun_is_a_gap_and_no_training() -> None:
    rank = one_rank()
    for k in range(100):
        rank.batch(0.01, index=k, recorded=not 40 <= k < 60)
        rank.compute(0.05)
    [process] = timeline_of(rank).processes
    assert process.gap_s == pytest.approx(20 * 0.06 + 0.05)
    assert process.training_s == pytest.approx(99 * 0.06 + 0.05 - process.gap_s, abs=0.01)


def test_the_first_batches_lost_open_the_window_later() -> None:
    rank = one_rank()
    for k in range(100):
        rank.batch(0.01, index=k, recorded=k >= 30)
        rank.compute(0.05)
    [process] = timeline_of(rank).processes
    assert (process.gap_s, process.batches) == (0, 70)


def test_a_single_save_at_the_end_is_outside_and_a_habitual_one_inside() -> None:
    once = train(one_rank(), 50, 0.05, lambda k: (0.01, "cpu"))
    once.event("ckpt_save", 3.0)
    often = one_rank()
    for k in range(50):
        often.batch(0.01, index=k)
        often.compute(0.05)
        if k % 10 == 9:
            often.event("ckpt_save", 0.5)
    assert timeline_of(once).processes[0].ckpt_blocking_s == 0
    assert timeline_of(often).processes[0].ckpt_blocking_s == pytest.approx(5 * 0.5)


def test_idle_time_after_the_last_step_is_not_training() -> None:
    rank = train(one_rank(), 50, 0.05, lambda k: (0.01, "cpu"))
    rank.now += 600
    rank.event("exit", 0.0)
    [process] = timeline_of(rank).processes
    assert process.window_s == pytest.approx(49 * 0.06 + 0.05, abs=0.01)


def test_loads_in_the_window_are_no_training() -> None:
    rank = one_rank()
    for k in range(50):
        rank.batch(0.01, index=k)
        rank.compute(0.05)
        if k == 25:
            rank.event("load", 4.0)
    [process] = timeline_of(rank).processes
    assert process.restore_s == pytest.approx(4.0)
    assert process.training_s == pytest.approx(50 * 0.06 - 0.01)


def test_a_save_inside_an_evaluation_is_a_save() -> None:
    rank = one_rank()
    for k in range(100):
        rank.batch(0.01, index=k)
        rank.compute(0.05)
        if k == 50:
            for j in range(10):
                rank.batch(0.1, index=j, loader=1)
                if j == 5:
                    rank.event("ckpt_save", 1.0)
    [process] = timeline_of(rank).processes
    assert process.ckpt_blocking_s == pytest.approx(1.0)
    assert process.eval_s == pytest.approx(1.0)


def test_nothing_recorded_is_no_process() -> None:
    assert timeline_of(one_rank()).processes == ()
