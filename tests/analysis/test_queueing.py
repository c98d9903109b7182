"""Runnable is not running: only the excess over the CPU counter moves, and only beside storage."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.queueing import relieve
from slurm_io.analysis.samples import CAUSES, COUNTS
from tests.analysis.stand_in import StandInNode, StandInStore

NS = 1_000_000_000


def tables(cpu_share: float | None) -> Tables:
    """Ten seconds of one worker that ran `cpu_share` of the time by its counter."""
    rows: list[dict[str, Any]] = [
        {
            "mono_ns": second * NS, "interval_ns": NS, "rank": 0, "role": "worker",
            "cpu_ns": None if cpu_share is None else int(cpu_share * NS),
        }
        for second in range(1, 11)
    ]  # fmt: skip
    node = StandInNode("n1", {}, {"process": rows})
    return Tables(StandInStore(None, {"n1": node}, ("n1",)))


def samples(n_cpu: int, n_storage: int) -> pl.DataFrame:
    """What the worker was seen in, over the same ten seconds."""
    counts = dict.fromkeys((f"n_{name}" for name in COUNTS), 0)
    row = {
        "proc": 0, "node": "n1", "rank": 0, "role": "worker", "mono_ns": 10 * NS,
        "interval_ns": 10 * NS, **counts, "n_cpu": n_cpu, "n_storage": n_storage,
    }  # fmt: skip
    frame = pl.DataFrame([row]).with_columns(pl.col("rank").cast(pl.Int32))
    return frame.with_columns(pl.col("node").cast(pl.Enum(["n1"])))


def evidence(*seconds: tuple[float, float]) -> pl.DataFrame:
    """(storage, cpu) passes of each second."""
    rows = [
        {"proc": 0, "sec": number, "passes": storage + cpu, **dict.fromkeys(CAUSES, 0.0),
         "storage": storage, "cpu": cpu}
        for number, (storage, cpu) in enumerate(seconds)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def relieved(cpu_share: float | None, *seconds: tuple[float, float]) -> list[tuple[float, float]]:
    said = evidence(*seconds)
    looked = samples(n_cpu=int(sum(cpu for _, cpu in seconds)),
                     n_storage=int(sum(storage for storage, _ in seconds)))  # fmt: skip
    after = relieve(said, looked, tables(cpu_share), every=1)
    assert after.columns == said.columns
    assert after["passes"].to_list() == said["passes"].to_list()
    sums = after.select(pl.sum_horizontal(CAUSES)).to_series().to_list()
    assert sums == pytest.approx(said["passes"].to_list())
    return list(zip(after["storage"].to_list(), after["cpu"].to_list(), strict=True))


def test_queueing_beside_storage_becomes_storage() -> None:
    [(storage, cpu)] = relieved(0.05, (90.0, 10.0))
    assert cpu == pytest.approx(5.26, abs=0.1)
    assert storage == pytest.approx(94.7, abs=0.1)


def test_cpu_that_was_really_used_stays_cpu() -> None:
    assert relieved(0.5, (50.0, 50.0)) == [(50.0, 50.0)]


def test_a_loader_on_too_few_cores_is_never_called_storage() -> None:
    """Two workers on one core run half the time and are runnable all of it."""
    assert relieved(0.5, (0.0, 100.0)) == [(0.0, 100.0)]


def test_seconds_without_storage_keep_their_cpu() -> None:
    busy, mixed = relieved(0.3, (0.0, 50.0), (45.0, 5.0))
    assert busy == (0.0, 50.0)
    assert mixed[1] < 5.0


def test_an_even_mix_is_split_evenly() -> None:
    """Half the runnable time was queueing: it goes to both sides as they are without it."""
    [(storage, cpu)] = relieved(0.2, (60.0, 40.0))
    assert (storage, cpu) == (pytest.approx(75.0), pytest.approx(25.0))


def test_unknown_counters_change_nothing() -> None:
    assert relieved(None, (90.0, 10.0)) == [(90.0, 10.0)]
