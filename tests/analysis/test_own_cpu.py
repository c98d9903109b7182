"""Without workers the CPU's part of the waits is what the thread counted, not what looks found."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.own_cpu import own_cpu, raise_to_own_cpu
from slurm_io.analysis.queueing import relieve
from slurm_io.analysis.samples import CAUSES
from tests.analysis.stand_in import StandInNode, StandInStore
from tests.analysis.test_queueing import evidence, loaders, rows, samples

NS = 1_000_000_000


def batches(*waits_s: float, workers: bool = False) -> pl.DataFrame:
    """One batch a second of one process; the first is the first of its pass."""
    return pl.DataFrame(
        {
            "row": range(len(waits_s)), "proc": 0, "node": "n1", "pid": 9, "loader": 1,
            "first": [number == 0 for number in range(len(waits_s))], "workers": workers,
            "wait_s": waits_s,
        },
        schema_overrides={"row": pl.UInt32, "proc": pl.Int32, "pid": pl.Int32, "loader": pl.Int32},
    )  # fmt: skip


def told(*waits: Any) -> Tables:
    """A store whose one rank says so of its loaders."""
    ranks = [{"rank": 0, "pid": 9, "own_waits": list(waits)}]
    return Tables(StandInStore(None, {"n1": StandInNode("n1", {"ranks": ranks})}, ("n1",)))


def counted(cpu_share: float, wait_ns: int = 10 * NS, loader: int = 1) -> dict[str, int]:
    return {"loader": loader, "wait_ns": wait_ns, "cpu_ns": int(cpu_share * wait_ns)}


def known(tables: Tables, **how: bool) -> list[tuple[int, float]]:
    return own_cpu(batches(0.5, 0.5, **how), tables).rows()


def test_the_share_is_cpu_time_over_waits() -> None:
    assert known(told(counted(0.05))) == [(0, 0.05)]


def test_only_loaders_that_train_count() -> None:
    assert known(told(counted(0.05), counted(0.9, loader=2))) == [(0, 0.05)]


def test_workers_have_cpu_time_of_their_own() -> None:
    assert known(told(counted(0.05)), workers=True) == []


@pytest.mark.parametrize(
    "said",
    [
        {}, None, 7, {"loader": 1}, {"loader": 1, "wait_ns": 5, "cpu_ns": 1},
        {"loader": 1, "wait_ns": 2 * NS, "cpu_ns": 3 * NS},
        {"loader": 1, "wait_ns": 2 * NS, "cpu_ns": -1},
        {"loader": True, "wait_ns": 2 * NS, "cpu_ns": 1},
        {"loader": 2**40, "wait_ns": 2 * NS, "cpu_ns": 1},
        {"loader": 2**70, "wait_ns": 2 * NS, "cpu_ns": 1},
    ],
)  # fmt: skip
def test_counts_that_are_none_are_not_known(said: Any) -> None:
    assert known(told(said)) == []


def test_a_loader_told_twice_is_not_believed() -> None:
    assert known(told(counted(0.05), counted(0.1))) == []


def test_waits_that_no_look_found_at_work_are_raised_to_what_was_counted() -> None:
    shares = pl.DataFrame(
        [
            {"row": number, **{f"p_{name}": 0.0 for name in CAUSES}, "p_storage": 1 - cpu,
             "p_cpu": cpu}
            for number, cpu in enumerate((0.0, 0.0, 0.1))
        ],
        schema_overrides={"row": pl.UInt32},
    )  # fmt: skip
    own = own_cpu(batches(0.5, 0.5, 0.5), told(counted(0.3)))
    after = raise_to_own_cpu(shares, batches(0.5, 0.5, 0.5), own)
    assert after.columns == shares.columns
    first, *others = after["p_cpu"].to_list()
    assert first == 0.0, "a first batch is not among those counted"
    assert sum(others) / 2 == pytest.approx(0.3)
    assert (after["p_storage"] + after["p_cpu"]).to_list() == pytest.approx([1.0] * 3)
    lower = own_cpu(batches(0.5, 0.5, 0.5), told(counted(0.05)))
    assert raise_to_own_cpu(shares, batches(0.5, 0.5, 0.5), lower).equals(shares)


def relieved(
    own: float, seen: dict[str, float], step: dict[str, int], **counters: float
) -> dict[str, float]:
    """Evidence of a rank without workers; `step`: its looks of the step, as many as of the waits.
    `counters`: shares of time of all threads (cpu_share), the main one (main_ns), the queue."""
    waits = samples("rank", **{name: int(count) for name, count in seen.items()})
    both = pl.concat([
        waits.with_columns(phase=pl.lit("data_wait")),
        samples("rank", **step).with_columns(phase=pl.lit("step")),
    ])  # fmt: skip
    process = rows(counters.pop("cpu_share"), "rank", range(1, 11), **counters)
    view = StandInNode("n1", {}, {"process": process})
    said = own_cpu(batches(0.5, 0.5), told(counted(own)))
    tables = Tables(StandInStore(None, {"n1": view}, ("n1",)))
    after = relieve(evidence(seen), both, loaders(False), said, tables, every=1)
    total = after.select(pl.sum_horizontal(CAUSES)).item()
    assert total == pytest.approx(sum(seen.values()))
    return after.select(CAUSES).row(0, named=True)


def test_a_thread_that_wakes_often_is_no_thread_that_works() -> None:
    """Its step works all the time, so that its counter over all time would hide the excess."""
    after = relieved(
        0.02, {"storage": 90.0, "cpu": 10.0}, {"cpu": 100},
        cpu_share=0.51, main_ns=0.51, queue_ns=0.0,
    )  # fmt: skip
    assert after["cpu"] == pytest.approx(10 - 8 * 90 / 92)
    assert after["storage"] == pytest.approx(90 + 8 * 90 / 92)


def test_a_pool_of_threads_may_have_worked_for_it() -> None:
    seen = {"storage": 40.0, "cpu": 60.0}
    pool = relieved(0.1, seen, {"cpu": 100}, cpu_share=0.8, main_ns=0.55, queue_ns=0.0)
    assert pool["cpu"] == 60.0
    alone = relieved(0.1, seen, {"cpu": 100}, cpu_share=0.56, main_ns=0.55, queue_ns=0.0)
    assert alone["cpu"] < 30


def test_preparation_that_queues_for_a_cpu_stays_preparation() -> None:
    """Half of the time it found no CPU; it waited for nothing else."""
    after = relieved(
        0.5, {"cpu": 100.0}, {"sleep": 100}, cpu_share=0.25, main_ns=0.25, queue_ns=0.25
    )
    assert after["cpu"] == 100.0


def test_without_a_count_of_the_other_threads_all_of_the_process_is_looked_at() -> None:
    after = relieved(0.02, {"storage": 90.0, "cpu": 10.0}, {"cpu": 100}, cpu_share=0.55)
    assert after["cpu"] == 10.0
