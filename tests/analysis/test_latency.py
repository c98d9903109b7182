"""Effective read latency: rows of the process table that cover one second, and many."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from slurm_io.analysis.causes import Causes
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.latency import ReadLatency, read_latency
from slurm_io.analysis.samples import COUNTS
from tests.analysis.stand_in import StandInNode, StandInStore

NS = 1_000_000_000
CALLS_A_SECOND = 20
SECONDS = 60


def process_row(end_s: int, length_s: int) -> dict[str, Any]:
    """A worker that makes 20 calls a second."""
    return {
        "mono_ns": end_s * NS, "interval_ns": length_s * NS, "rank": 0, "role": "worker",
        "majflt": 0, "syscr": CALLS_A_SECOND * length_s, "rchar_bytes": 0, "read_bytes": 0,
        "blkio_delay_ns": None,
    }  # fmt: skip


def waits_row(end_s: int, share: float) -> dict[str, Any]:
    """One second of ten passes, of which `share` found the worker in storage."""
    counts = dict.fromkeys((f"n_{name}" for name in COUNTS), 0)
    return {
        "proc": 0, "node": "n1", "rank": 0, "role": "worker", "sec": end_s - 1,
        "mono_ns": end_s * NS, "interval_ns": NS, "phase": "data_wait", "loader": 0, "passes": 10,
        **counts,
        "n_storage": int(10 * share),
    }  # fmt: skip


def heard(
    rows: list[dict[str, Any]],
    stalled: range,
    every: int = 1,
    between: float = 0.0,
    trained: range = range(SECONDS),
) -> ReadLatency | None:
    """With a worker that is in storage half of the time in the seconds of `stalled`, and `between`
    of it in the others; data was waited for from the first to the last second of `trained`."""
    shares = dict.fromkeys(range(SECONDS) if between else (), between) | dict.fromkeys(stalled, 0.5)
    said = [
        waits_row(second + 1, share)
        for second, share in shares.items()
        if (second + 1) % every == 0
    ]
    node = pl.Enum(["n1"])
    samples = pl.DataFrame(said).with_columns(
        pl.col("rank").cast(pl.Int32), pl.col("node").cast(node)
    )
    borders = pl.DataFrame(
        {"node": ["n1"], "border": [0]}, schema={"node": node, "border": pl.Int64}
    )
    none = pl.DataFrame()
    evidence = pl.DataFrame({"proc": [0, 0], "sec": [trained[0], trained[-1]]})
    store = StandInStore(None, {"n1": StandInNode("n1", {}, {"process": rows})}, ("n1",))
    return read_latency(Tables(store), Causes(none, samples, evidence, none, borders, every))


@pytest.mark.parametrize("length_s", [1, 5, 10])
def test_a_row_counts_with_the_storage_of_all_seconds_it_covers(length_s: int) -> None:
    rows = [process_row(end, length_s) for end in range(length_s, SECONDS + 1, length_s)]
    found = heard(rows, range(SECONDS))
    assert found is not None
    assert found.storage_s == pytest.approx(SECONDS / 2)
    assert found.calls == CALLS_A_SECOND * SECONDS


def test_a_look_at_storage_while_a_process_imports_does_not_count_its_calls() -> None:
    rows = [process_row(end, 1) for end in range(1, SECONDS + 1)]
    for row in rows[:3]:
        row["syscr"] = 1000
    found = heard(rows, range(SECONDS), trained=range(3, SECONDS))
    assert found is not None
    assert found.calls == CALLS_A_SECOND * (SECONDS - 3)
    assert found.storage_s == pytest.approx((SECONDS - 3) / 2)


def test_calls_outside_the_stalled_seconds_never_make_the_latency_larger() -> None:
    """Three stalled seconds within a row of ten: all of its calls count."""
    long = heard([process_row(end, 10) for end in range(10, SECONDS + 1, 10)], range(12, 15))
    short = heard([process_row(end, 1) for end in range(1, SECONDS + 1)], range(12, 15))
    assert long is not None and short is not None
    assert (short.storage_s, short.calls) == (1.5, 3 * CALLS_A_SECOND)
    assert (long.storage_s, long.calls) == (1.5, 10 * CALLS_A_SECOND)


@pytest.mark.parametrize("length_s", [1, 10])
def test_where_each_tenth_second_was_looked_at_that_part_of_the_calls_counts(length_s: int) -> None:
    rows = [process_row(end, length_s) for end in range(10, SECONDS + 1, 10)]
    found = heard(rows, range(SECONDS), every=10)
    assert found is not None
    assert (found.storage_s, found.calls) == (3.0, 6 * CALLS_A_SECOND)


@pytest.mark.parametrize(("between", "seconds"), [(0.1, 20), (0.4, 60)])
def test_seconds_of_short_reads_do_not_thin_out_those_of_long_ones(
    between: float, seconds: int
) -> None:
    """Where most of the time lies in the 20 long seconds they alone count, else all do."""
    rows = [process_row(end, 1) for end in range(1, SECONDS + 1)]
    found = heard(rows, range(20), between=between)
    assert found is not None
    assert found.calls == CALLS_A_SECOND * seconds
