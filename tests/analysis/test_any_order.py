"""Rows that do not come by time (a damaged or merged store) say what they say in order."""

from __future__ import annotations

import random

import polars as pl
import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.samples import CAUSES
from slurm_io.analysis.seconds import cut_waits
from slurm_io.analysis.shares import spread
from slurm_io.analysis.thresholds import Sampling
from tests.analysis.groups import meet, ranks_on
from tests.analysis.stand_in import NS, Job


def test_a_shuffled_store_gives_the_same_report() -> None:
    ranks = ranks_on(3, 2)
    dice = random.Random(5)
    meet(ranks, 120, lambda r, k: 0.05, lambda r, k: dice.expovariate(50))
    store = Job(ranks).store()
    whole = analyse_store(store)
    for node in store.nodes.values():
        dice.shuffle(node.tables["steps"])
    again = analyse_store(store)
    assert again["idle"] == whole["idle"]
    assert again["holder"] == whole["holder"]
    assert again["time"] == whole["time"]


def test_waits_that_overlap_still_share_their_seconds() -> None:
    """Two waits of one process in one second, the later one first."""
    rows = pl.DataFrame(
        {
            "row": [0, 1, 2],
            "proc": [0, 0, 1],
            "node": ["n1"] * 3,
            "first": [False] * 3,
            "start": [int(2.5 * NS), int(0.5 * NS), 0],
            "end": [int(2.7 * NS), int(2.6 * NS), int(0.1 * NS)],
        }
    ).with_columns(pl.col("row").cast(pl.UInt32), pl.col("proc").cast(pl.Int32))
    pieces = cut_waits(rows, pl.DataFrame({"node": ["n1"], "border": [0]}))
    numbers: dict[tuple[int, int], int] = {}
    for proc, sec, second in pieces.select("proc", "sec", "second").rows():
        assert numbers.setdefault((proc, sec), second) == second
    assert sorted(numbers.values()) == list(range(len(numbers))) == [0, 1, 2, 3]
    assert pieces["part_s"].sum() == pytest.approx(0.2 + 2.1 + 0.1)


def test_the_split_of_seconds_keeps_their_order_and_does_not_depend_on_it() -> None:
    dice = random.Random(1)
    seconds = [(proc, sec) for proc in range(3) for sec in range(200)]
    waits = pl.DataFrame(
        [(proc, sec, dice.choice([0.005, 0.05, 0.5])) for proc, sec in seconds],
        schema={"proc": pl.Int32, "sec": pl.Int64, "wait_s": pl.Float64},
        orient="row",
    )
    evidence = pl.DataFrame(
        [(proc, sec, 2.0, *(dice.random() for _ in CAUSES)) for proc, sec in seconds[::4]],
        schema={"proc": pl.Int32, "sec": pl.Int64, "passes": pl.Float64,
                **dict.fromkeys(CAUSES, pl.Float64)},
        orient="row",
    )  # fmt: skip
    found = spread(waits, evidence, Sampling())
    assert found.select("proc", "sec", "wait_s").equals(waits)
    mixed = waits.sample(fraction=1, shuffle=True, seed=2)
    again = spread(mixed, evidence, Sampling())
    assert again.select("proc", "sec").equals(mixed.select("proc", "sec"))
    both = found.sort("proc", "sec"), again.sort("proc", "sec")
    for cause in CAUSES:
        assert ((both[0][f"p_{cause}"] - both[1][f"p_{cause}"]).abs() < 1e-9).all()
