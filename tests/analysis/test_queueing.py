"""Ready is not running: the excess over the CPU counter moves, and only beside waits."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.own_cpu import NOBODY
from slurm_io.analysis.queueing import really_ready, really_running, relieve
from slurm_io.analysis.samples import CAUSES, COUNTS
from tests.analysis.stand_in import StandInNode, StandInStore

NS = 1_000_000_000


def rows(cpu_share: float | None, role: str, seconds: range, **shares: float) -> list[Any]:
    """Process rows of one process that ran `cpu_share` of the time; `shares` of what else."""
    return [
        {
            "mono_ns": second * NS, "interval_ns": NS, "pid": 7, "rank": 0, "role": role,
            "cpu_ns": None if cpu_share is None else int(cpu_share * NS),
            **{name: int(share * NS) for name, share in shares.items()},
        }
        for second in seconds
    ]  # fmt: skip


def tables_of(*parts: list[Any]) -> Tables:
    node = StandInNode("n1", {}, {"process": [row for part in parts for row in part]})
    return Tables(StandInStore(None, {"n1": node}, ("n1",)))


def samples(role: str, sec: int = 0, **seen: int) -> pl.DataFrame:
    """What the process was seen in over the ten seconds to second 10 (a row is dated at its end),
    all of them numbered `sec`."""
    counts = dict.fromkeys((f"n_{name}" for name in COUNTS), 0)
    row = {
        "proc": 0, "node": "n1", "rank": 0, "role": role, "mono_ns": 10 * NS, "sec": sec,
        "interval_ns": 10 * NS, "phase": "data_wait", **counts,
        **{f"n_{name}": count for name, count in seen.items()},
    }  # fmt: skip
    frame = pl.DataFrame([row]).with_columns(pl.col("rank").cast(pl.Int32))
    return frame.with_columns(pl.col("node").cast(pl.Enum(["n1"])))


def evidence(*seconds: dict[str, float]) -> pl.DataFrame:
    """Passes of each second, by cause."""
    found = [
        {"proc": 0, "sec": number, "passes": sum(seen.values()), **dict.fromkeys(CAUSES, 0.0),
         **seen}
        for number, seen in enumerate(seconds)
    ]  # fmt: skip
    return pl.DataFrame(found)


def loaders(workers: bool) -> pl.DataFrame:
    return pl.DataFrame({"proc": [0], "loader": [0], "workers": [workers]})


def relieved(
    process: list[Any], *seconds: dict[str, float], role: str = "worker", **seen: int
) -> list[dict[str, float]]:
    """`seen`: all samples of the process, where they are more than those of the data waits."""
    said = evidence(*seconds)
    sums = {name: int(sum(one.get(name, 0) for one in seconds)) for name in ("storage", "cpu")}
    looked = samples(role, **(seen or sums))
    after = relieve(said, looked, loaders(role == "worker"), NOBODY, tables_of(process), every=1)
    assert after.columns == said.columns
    assert after["passes"].to_list() == said["passes"].to_list()
    total = after.select(pl.sum_horizontal(CAUSES)).to_series().to_list()
    assert total == pytest.approx(said["passes"].to_list())
    return after.select(CAUSES).to_dicts()


def worker(cpu_share: float | None, **shares: float) -> list[Any]:
    return rows(cpu_share, "worker", range(1, 11), **shares)


def test_queueing_beside_storage_becomes_storage() -> None:
    [after] = relieved(worker(0.05), {"storage": 90.0, "cpu": 10.0})
    assert after["cpu"] == pytest.approx(5.26, abs=0.1)
    assert after["storage"] == pytest.approx(94.7, abs=0.1)


def test_the_end_of_the_program_is_no_work_of_the_loader() -> None:
    """It lies in the second of the last wait: an interpreter that is taken down runs all of it."""
    end = rows(1.0, "worker", range(10, 11))
    [after] = relieved([*worker(0.05)[:-1], *end], {"storage": 90.0, "cpu": 10.0})
    assert after["cpu"] == pytest.approx(5.26, abs=0.1)


def test_a_job_of_one_row_is_judged_by_it() -> None:
    [after] = relieved(rows(0.05, "worker", range(10, 11)), {"storage": 90.0, "cpu": 10.0})
    assert after["cpu"] == pytest.approx(5.26, abs=0.1)


def test_cpu_that_was_really_used_stays_cpu() -> None:
    [after] = relieved(worker(0.5), {"storage": 50.0, "cpu": 50.0})
    assert (after["storage"], after["cpu"]) == (50.0, 50.0)


def test_a_loader_on_too_few_cores_is_never_called_storage() -> None:
    """Two workers on one core run half the time and are runnable all of it."""
    [after] = relieved(worker(0.5, queue_ns=0.5), {"cpu": 100.0})
    assert (after["storage"], after["cpu"]) == (0.0, 100.0)


def test_seconds_without_waits_keep_their_cpu() -> None:
    busy, mixed = relieved(worker(0.3), {"cpu": 50.0}, {"storage": 45.0, "cpu": 5.0})
    assert (busy["storage"], busy["cpu"]) == (0.0, 50.0)
    assert mixed["cpu"] < 5.0


def test_an_even_mix_is_split_evenly() -> None:
    """Half the runnable time was queueing: it goes to both sides as they are without it."""
    [after] = relieved(worker(0.2), {"storage": 60.0, "cpu": 40.0})
    assert (after["storage"], after["cpu"]) == (pytest.approx(75.0), pytest.approx(25.0))


def test_unknown_counters_change_nothing() -> None:
    [after] = relieved(worker(None), {"storage": 90.0, "cpu": 10.0})
    assert (after["storage"], after["cpu"]) == (90.0, 10.0)


def test_what_is_known_to_have_queued_for_a_cpu_is_nobodys_storage() -> None:
    """8 of 10 looks too many, 6 of them the queue's: those are unknown, the others storage."""
    [after] = relieved(worker(0.02, queue_ns=0.06), {"storage": 90.0, "cpu": 10.0})
    moved = 8.0 * 90 / 92
    assert after["unknown"] == pytest.approx(0.75 * moved)
    assert after["storage"] == pytest.approx(90 + 0.25 * moved)
    assert after["cpu"] == pytest.approx(10 - moved)


def test_a_loader_that_sleeps_on_a_busy_node_prepares_nothing() -> None:
    """A fifth of the looks finds it waking; it ran a fiftieth of the time."""
    [after] = relieved(
        worker(0.02, queue_ns=0.18), {"sleep": 80.0, "cpu": 20.0}, sleep=80, cpu=20
    )  # fmt: skip
    assert after["cpu"] < 3
    assert after["storage"] == 0
    assert after["sleep"] + after["unknown"] > 97


def test_the_first_reading_of_the_queue_reaches_back_and_is_left_out() -> None:
    process = worker(0.02, queue_ns=0.02)
    process[0]["queue_ns"] = NS
    [after] = relieved(process, {"storage": 90.0, "cpu": 10.0})
    assert after["unknown"] == pytest.approx(0.25 * 8 * 90 / 92)


def test_a_rank_without_workers_is_held_against_its_own_counter() -> None:
    """Its looks of all phases: 14 of 200 too many of 20, half of these in its step."""
    process = rows(0.03, "rank", range(1, 11))
    [after] = relieved(
        process, {"storage": 130.0, "cpu": 10.0}, role="rank", storage=130, cpu=20, sleep=50
    )
    assert after["cpu"] == pytest.approx(3.2, abs=0.1)
    assert after["storage"] == pytest.approx(136.8, abs=0.1)


def test_a_rank_with_workers_is_no_measure_of_theirs() -> None:
    said = evidence({"storage": 90.0, "cpu": 10.0})
    both = pl.concat([samples("worker", storage=90, cpu=10), samples("rank", cpu=100)])
    spins = rows(1.0, "rank", range(1, 11))
    process = tables_of(spins, worker(0.10))
    after = relieve(said, both, loaders(True), NOBODY, process, every=1)
    assert after["cpu"].to_list() == [10.0]


def test_work_before_and_behind_the_waits_does_not_count() -> None:
    """Ending takes seconds of CPU: looks and counter alike, and both would hide the excess."""
    said = evidence({"storage": 90.0, "cpu": 10.0})
    end = samples("worker", sec=5, cpu=100).with_columns(mono_ns=pl.lit(20 * NS))
    looked = pl.concat([samples("worker", storage=90, cpu=10), end])
    ending = rows(1.0, "worker", range(11, 21))
    process = tables_of(worker(0.05), ending)
    after = relieve(said, looked, loaders(True), NOBODY, process, every=1)
    assert after["cpu"].to_list() == [pytest.approx(5.26, abs=0.1)]


def test_of_a_rank_without_a_hook_the_queue_is_no_time_between_its_waits() -> None:
    """Of 40 looks of 100 it ran in 20, and queued in 10."""
    looked = samples("rank", cpu=40, sleep=60)
    process = tables_of(rows(0.2, "rank", range(1, 11), queue_ns=0.1))
    assert really_running(looked, process, 1, "rank").rows() == [(0, pytest.approx(0.5))]
    assert really_ready(looked, process, 1, "rank").rows() == [(0, pytest.approx(0.75))]
    untold = tables_of(rows(0.2, "rank", range(1, 11)))
    assert really_ready(looked, untold, 1, "rank").rows() == [(0, pytest.approx(0.5))]
