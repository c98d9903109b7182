"""Time lost elsewhere reaches the verdict, where storage is known to have no part in it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from tests.analysis.groups import meet, ranks_on
from tests.analysis.rules.stores import Row, healthy, healthy_gpu, job, put, several
from tests.analysis.stand_in import Job, Rank, StandInStore, one_rank, train, train_together


def hot(store: StandInStore, known: bool = True) -> StandInStore:
    """GPU 3 of n1 lowers its clocks for heat, and runs below the others."""
    store.nodes["n1"].meta["sources"]["gpu"] = {
        "state": "on",
        "gpus": [{"gpu": n, "vendor": "nvidia", "name": "H100"} for n in range(8)],
        "whose": {"known": known},
    }
    row = {"throttle_reasons": 0x24, "sm_clock_mhz": 1200, "temperature_c": 91}
    put(store, "gpu", lambda _: [healthy_gpu(n) | (row if n == 3 else {}) for n in range(8)])
    return store


def straggling(rank: Rank, last: bool) -> list[Row]:
    base = {"rank": rank.number, "pid": rank.pid, "role": "rank"}
    waiting = 2 if last else 40
    return [
        {**base, "state": state, "samples": number, "certain": number}
        for state, number in (("collective", waiting), ("compute", 100 - waiting))
    ]


def always(rows: list[Row], second: int) -> list[Row]:
    return rows


def with_straggler(ranks: list[Rank]) -> StandInStore:
    store = job(*ranks)
    for rank in ranks:
        rows = straggling(rank, last=rank is ranks[-1])
        put(store, "stacks", partial(always, rows), node=rank.node)
    return store


def test_hot_gpus_of_a_job_that_storage_did_not_slow_are_not_storage() -> None:
    report = analyse_store(hot(job(healthy())))
    assert report["verdict"] == "not-storage"
    assert "slowed by heat (F20)" in report["verdict_reason"]
    assert "waits for storage took at most" in report["verdict_reason"]


def test_a_gpu_that_may_be_another_jobs_does_not_speak() -> None:
    assert analyse_store(hot(job(healthy()), known=False))["verdict"] == "healthy"


def test_a_straggler_in_collectives_is_not_storage() -> None:
    ranks = train_together(several(4, 4), 500, 0.05, lambda r, k: (0.0005, "pipe"))
    report = analyse_store(with_straggler(ranks))
    assert report["verdict"] == "not-storage"
    assert "(F21)" in report["verdict_reason"]


def test_with_storage_not_ruled_out_nothing_is_proven() -> None:
    """2 % in storage and 2 % in a loader that slept, which may have been storage as well."""

    def wait(k: int) -> tuple[float, str]:
        return 0.002, "sleep" if k // 20 % 2 else "storage"

    report = analyse_store(hot(job(train(one_rank(0), 1200, 0.05, wait))))
    assert report["idle"]["storage"]["high"] >= 0.03
    assert report["verdict"] == "not-proven"
    assert "(F20), and up to" in report["verdict_reason"]


def test_storage_stays_the_verdict_and_the_other_cause_is_named() -> None:
    store = hot(job(train(one_rank(), 600, 0.05, lambda k: (0.05, "storage"))))
    report = analyse_store(store)
    assert report["verdict"] == "storage"
    assert "besides, 1 GPU slowed by heat (F20)" in report["verdict_reason"]
    assert {"F01", "F20"} <= {one["rule"] for one in report["findings"]}


def test_a_poor_link_alone_costs_nothing_that_is_known() -> None:
    store = hot(job(healthy()))
    for row in store.nodes["n1"].tables["gpu"]:
        row |= {"throttle_reasons": 0x4, "sm_clock_mhz": 1700, "pcie_width": 8}
    report = analyse_store(store)
    assert {one["rule"] for one in report["findings"]} == {"F20"}
    assert report["verdict"] == "healthy"


class TestGpusOfRanksThatNeverRead:
    """A dispatcher, or the other stages of a pipeline: one reader, the others only greeted."""

    def store(self, nodes: int = 2, gpus: int | None = None, **told: Any) -> StandInStore:
        [reader] = ranks_on(1)
        meet([reader], 300, lambda place, batch: 0.05, lambda place, batch: 0.05)
        store = Job([reader], gpus_on_node=gpus).store()
        store.nodes["n1"].meta["ranks"][0]["world_size"] = 4
        quiet = ranks_on(nodes, nodes)[1:]
        for rank in quiet:
            rank.compute(30.0)
        for name, node in Job(quiet, waits=False).store().nodes.items():
            store.nodes[name] = node
        for number in (1, 2, 3):
            node = store.nodes[f"n{min(number, nodes - 1) + 1}"]
            node.meta["ranks"] = [
                *(one for one in node.meta["ranks"] if one["rank"] == 0),
                *(one for one in node.meta["ranks"] if 0 < (one["rank"] or 0) < number),
                {
                    "rank": number,
                    "pid": 7000 + number,
                    "world_size": 4,
                    "first_ts_ns": None,
                    **told,
                },
            ]
        return store

    def lost_s(self, store: StandInStore) -> float:
        report = analyse_store(store)
        [finding] = [one for one in report["findings"] if one["rule"] == "F01"]
        assert report["idle"]["data_storage"] == pytest.approx(0.5, abs=0.02)
        return float(finding["gpu_hours"]) * 3600

    def test_they_lose_what_the_reader_waits(self) -> None:
        assert self.lost_s(self.store()) == pytest.approx(4 * 299 * 0.05, rel=0.05)

    def test_by_the_gpus_of_their_nodes_where_these_are_known(self) -> None:
        assert self.lost_s(self.store(nodes=4, gpus=8)) == pytest.approx(32 * 299 * 0.05, rel=0.05)

    @pytest.mark.parametrize("told", [{"world_size": 2}, {"told_by": "environ"}])
    def test_processes_of_another_world_or_that_only_have_its_number_lose_nothing(
        self, told: dict[str, Any]
    ) -> None:
        assert self.lost_s(self.store(**told)) == pytest.approx(299 * 0.05, rel=0.05)
