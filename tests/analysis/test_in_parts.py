"""Parts, runs and columns of one value are ways to save work: nothing that is told may change."""

from __future__ import annotations

import random

import polars as pl
import pytest

from slurm_io.analysis import in_parts as parts
from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.batches import _passes
from slurm_io.analysis.latency import _total
from slurm_io.analysis.samples import CAUSES
from slurm_io.analysis.steps import _added_up
from tests.analysis.stand_in import Job, one_rank, train

_SUMMED = ("handover_lost_s", "lost_high_s", "storage_low_s", "storage_high_s",
           *(f"l_{cause}" for cause in CAUSES))  # fmt: skip


def batches(steps: list[tuple[int, int]]) -> pl.DataFrame:
    """One row for each (proc, step)."""
    rows = [
        {"proc": proc, "step": step, "ts_ns": place, "start": place, "lost_before": place == 2}
        | dict.fromkeys(_SUMMED, place / 7)
        for place, (proc, step) in enumerate(steps)
    ]
    return pl.DataFrame(rows)


@pytest.mark.parametrize("part_rows", [1, 3, 100])
def test_parts_make_what_the_whole_does(part_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pl.DataFrame({"a": range(10)})
    monkeypatch.setattr(parts, "_PART_ROWS", part_rows)
    made = parts.in_parts(rows, lambda one: one.filter(pl.col("a") % 3 != 1) * 2)
    assert made["a"].to_list() == [0, 4, 6, 10, 12, 16, 18]
    assert parts.in_parts(rows.clear(), lambda one: one).is_empty()


def test_a_report_does_not_show_in_how_many_parts_it_was_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Job([train(one_rank(), 250, 0.05, lambda k: (0.05, "storage"))]).store()
    whole = analyse_store(store)
    monkeypatch.setattr(parts, "_PART_ROWS", 7)
    assert analyse_store(store) == whole


@pytest.mark.parametrize(
    "steps",
    [
        [(0, 0), (0, 1), (0, 2), (1, 2), (1, 3)],  # one batch a step
        [(0, 0), (0, 0), (0, 1), (1, 1), (1, 1), (1, 1)],  # several
        [],
    ],
)
def test_a_step_is_the_sum_of_its_batches(steps: list[tuple[int, int]]) -> None:
    rows = batches(steps) if steps else batches([(0, 0)]).clear()
    found = _added_up(rows)
    assert found.select("proc", "step").rows() == list(dict.fromkeys(steps))
    for (proc, step), t0, broken, lost_s in found.select(
        pl.concat_list("proc", "step"), "t0", "broken", "l_storage"
    ).iter_rows():
        mine = [place for place, each in enumerate(steps) if each == (proc, step)]
        assert t0 == mine[0]
        assert broken == (2 in mine)
        assert lost_s == pytest.approx(sum(place / 7 for place in mine))


def test_passes_that_take_turns_keep_their_numbers() -> None:
    keys = [(0, 1, 0), (0, 2, 0), (0, 1, 0), (0, 1, 1), (0, 2, 0), (1, 1, 1)]
    numbers = _passes(pl.DataFrame(keys, schema=["proc", "loader", "epoch"], orient="row"))
    assert len(set(zip(keys, numbers, strict=True))) == len(set(keys)) == numbers.n_unique()


def test_a_total_is_the_same_in_any_order() -> None:
    values = [0.1, 0.2, 1e16, 0.3, -1e16, 0.7]
    totals = {
        _total(pl.Series(random.Random(seed).sample(values, len(values)))) for seed in range(20)
    }
    assert len(totals) == 1
