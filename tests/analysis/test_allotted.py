"""Advice fits what the job was given: CPUs its ranks may run on, memory of its group."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.allotted import advise_workers, cpus_of, fitting_workers, memory_limit_bytes
from slurm_io.analysis.picture import Picture, take_picture
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.rules.stores import GIB, answer, job, put, starved
from tests.analysis.stand_in import Rank, StandInStore, train


def store_of(workers: int | None = 2, **meta: Any) -> StandInStore:
    store = job(starved(300, "cpu"))
    told = [] if workers is None else [{"pid": 1000, "rank": 0, "id": 0, "num_workers": workers}]
    store.nodes["n1"].meta |= {"loaders": told} | meta
    return store


def picture(store: StandInStore) -> Picture:
    return take_picture(store, Thresholds())


@pytest.mark.parametrize(
    ("meta", "fitting"),
    [
        ({"ncpu": 64}, 16),
        ({"ncpu": 64, "cpus_allowed": {"node": 4, "rank": 4}}, 3),
        ({"ncpu": 8, "cpus_allowed": {"node": 64, "rank": 64}}, 7),
        ({"ncpu": 64, "cpus_allowed": {"node": 12, "rank": 6}}, 5),
        ({"ncpu": 64, "cpus_allowed": {"node": 1, "rank": 1}}, 1),
        ({"ncpu": 64, "cpus_allowed": {"node": "x", "rank": -1}}, 16),
        ({"ncpu": 64, "cpus_allowed": [1]}, 16),
    ],
)
def test_workers_fit_what_the_rank_may_run_on(meta: dict[str, Any], fitting: int) -> None:
    assert fitting_workers(picture(store_of(**meta))) == fitting


def test_ranks_of_a_node_share_what_the_job_has_there() -> None:
    ranks = [Rank(number, "n1", 1000 + 10 * number) for number in range(4)]
    store = job(*[train(one, 300, 0.05, lambda k: (0.05, "cpu")) for one in ranks])
    store.nodes["n1"].meta |= {"ncpu": 128, "cpus_allowed": {"node": 32, "rank": 32}}
    assert cpus_of(picture(store), "n1").each() == 8
    assert fitting_workers(picture(store)) == 7


def test_cpus_that_are_idle_want_workers_and_nothing_from_slurm() -> None:
    advice = advise_workers(picture(store_of(2, ncpu=64, cpus_allowed={"node": 8, "rank": 8})))
    assert (advice.workers, advice.text) == (7, "")
    assert advice.commands == (
        "DataLoader(..., num_workers=7, prefetch_factor=4, persistent_workers=True)",
    )


def test_full_cpus_want_more_from_slurm_first() -> None:
    advice = advise_workers(picture(store_of(3, ncpu=64, cpus_allowed={"node": 4, "rank": 4})))
    assert advice.commands[0] == "#SBATCH --cpus-per-task=17"
    assert "num_workers=16" in advice.commands[1]
    assert advice.text == "a rank has 4 CPUs and 3 workers: ask for more CPUs"


def test_a_single_cpu_is_no_room_for_a_worker() -> None:
    advice = advise_workers(picture(store_of(0, ncpu=8, cpus_allowed={"node": 1, "rank": 1})))
    assert advice.text == "a rank has 1 CPU and 0 workers: ask for more CPUs"
    assert advice.commands[0] == "#SBATCH --cpus-per-task=8"
    alone = advise_workers(picture(store_of(0, ncpu=1, cpus_allowed={"node": 1, "rank": 1})))
    assert (alone.commands, "all the node can give" in alone.text) == ((), True)


def test_a_full_node_has_no_advice_on_workers() -> None:
    store = store_of(3, ncpu=4, cpus_allowed={"node": 4, "rank": 4})
    assert advise_workers(picture(store)).commands == ()
    [finding] = answer("f01_loader_bound", store).findings
    assert finding.commands == ()
    assert "only cheaper work helps" in finding.remedy
    assert "more workers" not in finding.remedy


def test_where_nothing_is_known_of_the_allotment_both_are_named() -> None:
    advice = advise_workers(picture(store_of(None, ncpu=8)))
    assert advice.commands == (
        "DataLoader(..., num_workers=7, prefetch_factor=4, persistent_workers=True)",
        "#SBATCH --cpus-per-task=8",
    )


def lost(how: str, **meta: Any) -> StandInStore:
    store = store_of(8, **meta)
    store.nodes["n1"].tables["events"].append({
        "ts_ns": 1, "mono_ns": 1, "end_mono_ns": 1, "pid": 1000, "rank": 0, "kind": "error",
        "failed": True, "step": 0, "detail": f'{{"worker": "is killed by signal: {how}"}}',
    })  # fmt: skip
    return store


@pytest.mark.parametrize(
    ("node", "command"),
    [(256, "#SBATCH --mem=48G  # 32G now"), (40, "#SBATCH --mem=0  # all of the node's memory"),
     (None, "#SBATCH --mem=0  # all of the node's memory")],
)  # fmt: skip
def test_memory_to_ask_for_is_half_as_much_again_where_the_node_has_it(
    node: int | None, command: str
) -> None:
    store = lost("Killed", mem_total_bytes=None if node is None else node * GIB)
    put(
        store, "cgroup", lambda second: {"path": "job_1", "version": 2, "mem_limit_bytes": 32 * GIB}
    )
    assert memory_limit_bytes(picture(store))[0] == 32 * GIB
    [finding] = answer("f23_worker_died", store).findings
    assert command in finding.commands


def test_a_lost_worker_wants_fewer_than_there_were() -> None:
    [finding] = answer("f23_worker_died", lost("Bus error.")).findings
    assert "DataLoader(..., num_workers=4, prefetch_factor=2)" in finding.commands
