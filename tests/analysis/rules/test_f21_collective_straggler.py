"""F21: one rank comes last to every collective; data waits and slow networks are others."""

from __future__ import annotations

from collections.abc import Callable

from slurm_io.analysis.api import analyse_store
from tests.analysis.rules.stores import Row, answer, healthy, job, put, several, text_of
from tests.analysis.stand_in import StandInStore, train_together

RULE = "f21_collective_straggler"


def together(share: Callable[[int], float], wait_s: Callable[[int], float] = lambda r: 0.002):
    """Four ranks on four nodes; `share(rank)`: of the looks that find it in a collective."""
    ranks = train_together(several(4, 4), 500, 0.05, lambda r, k: (wait_s(r), "storage"))
    store = job(*ranks)
    for number in range(4):
        put(store, "stacks", lambda s, n=number: _looks(n, share(n)), node=f"n{number + 1}")
    return store


def _looks(rank: int, share: float) -> list[Row]:
    base = {"rank": rank, "pid": 1000 + 10 * rank, "role": "rank", "certain": 10}
    waiting = round(100 * share)
    return [
        {**base, "state": "collective", "samples": waiting},
        {**base, "state": "compute", "samples": 100 - waiting},
    ]


def test_the_rank_that_comes_last_is_named() -> None:
    said = answer(RULE, together(lambda rank: 0.02 if rank == 3 else 0.4))
    [finding] = said.findings
    assert (finding.where.ranks, finding.where.nodes) == ((3,), ("n4",))
    assert finding.confidence == "likely"
    assert "which computes longer" in text_of(said)


def test_a_network_that_is_slow_for_all_has_no_straggler() -> None:
    assert answer(RULE, together(lambda rank: 0.4)).state == "quiet"


def test_short_exchanges_are_usual() -> None:
    assert answer(RULE, together(lambda rank: 0.01 if rank == 3 else 0.1)).state == "quiet"


def test_a_rank_that_waits_for_data_is_not_one_that_computes_longer() -> None:
    store = together(lambda r: 0.02 if r == 3 else 0.4, lambda r: 0.05 if r == 3 else 0.002)
    said = answer(RULE, store)
    assert said.state == "quiet"
    assert "F01" in said.reason


def test_without_stacks_nothing_is_said() -> None:
    ranks = train_together(several(4, 4), 500, 0.05, lambda r, k: (0.002, "pipe"))
    said = answer(RULE, job(*ranks))
    assert said.state == "not enough evidence"
    assert "stacks" in said.reason


def test_one_rank_has_nobody_to_wait_for() -> None:
    assert answer(RULE, job(healthy())).state == "quiet"


def test_storage_is_not_blamed() -> None:
    store: StandInStore = together(lambda rank: 0.02 if rank == 3 else 0.4)
    report = analyse_store(store)
    assert report["verdict"] in ("healthy", "not-storage")
    assert {one["rule"] for one in report["findings"]} == {"F21"}
