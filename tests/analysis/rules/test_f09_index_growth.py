"""F09: memory that grows with the steps; page cache, buffers that fill, and storage are others."""

from __future__ import annotations

from collections.abc import Callable

from slurm_io.analysis.api import analyse_store
from tests.analysis.rules.stores import GIB, Row, answer, healthy, job, put, text_of
from tests.analysis.stand_in import EPOCH_NS, NS, Rank, StandInStore, one_rank, train

RULE = "f09_index_growth"


def growing(rank: Rank, held: Callable[[float], float], **more: object) -> StandInStore:
    """`held(at)`: GiB of anonymous memory at that part (0..1) of the run."""
    store, length = job(rank), rank.now - 100

    def row(second: int) -> Row:
        return {"path": "job_42", "version": 2, "mem_shmem_bytes": GIB,
                "mem_anon_bytes": int(held((second - 100) / length) * GIB), **more}  # fmt: skip

    put(store, "cgroup", row)
    return store


def test_steady_growth_with_quiet_storage() -> None:
    store = growing(healthy(), lambda at: 10 + 6 * at)
    said = answer(RULE, store)
    [finding] = said.findings
    assert (finding.severity, finding.confidence) == ("warn", "likely")
    assert finding.where.nodes == ("n1",)
    assert "storage was quiet" in text_of(said)
    assert "a step)" in text_of(said)


def test_steps_that_slow_down_with_it_are_the_second_signal() -> None:
    rank = one_rank()
    for k in range(1200):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(0.05 * (1 + k / 2000))
    [finding] = answer(RULE, growing(rank, lambda at: 10 + 6 * at)).findings
    assert finding.confidence == "proven"


def test_memory_given_back_as_the_training_ends_hides_no_growth() -> None:
    """A row is of the end of its second, a moment after the last step."""
    rank = one_rank()
    for k in range(1100):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(0.018)
    store = growing(rank, lambda at: 10 + 6 * at if at < 1 else 16)
    rows = store.nodes["n1"].tables["cgroup"]
    end_ns = int((rank.now + 0.3) * NS)
    freed = {"mono_ns": end_ns, "ts_ns": end_ns + EPOCH_NS, "mem_anon_bytes": GIB // 4}
    store.nodes["n1"].tables["cgroup"] = [
        *(row for row in rows if row["mono_ns"] < rank.now * NS),
        {**rows[-1], **freed},
    ]
    assert answer(RULE, store).state == "fired"


def test_page_cache_that_grows_is_no_memory() -> None:
    store = growing(healthy(), lambda at: 10.0, mem_file_bytes=400 * GIB)
    assert answer(RULE, store).state == "quiet"


def test_a_buffer_that_fills_and_stays_is_no_growth() -> None:
    assert answer(RULE, growing(healthy(), lambda at: 10 + min(6, 20 * at))).state == "quiet"


def test_memory_that_goes_up_and_down_is_no_growth() -> None:
    assert answer(RULE, growing(healthy(), lambda at: 10 + int(at * 20) % 2)).state == "quiet"


def test_a_little_growth_is_how_python_is() -> None:
    assert answer(RULE, growing(healthy(), lambda at: 1 + 0.2 * at)).state == "quiet"
    assert answer(RULE, growing(healthy(), lambda at: 100 + 5 * at)).state == "quiet"


def test_with_loud_storage_nothing_is_proven() -> None:
    rank = train(one_rank(), 1200, 0.05, lambda k: (0.03, "storage"))
    said = answer(RULE, growing(rank, lambda at: 10 + 6 * at))
    [finding] = said.findings
    assert finding.confidence == "not-proven"
    assert "storage was not quiet" in text_of(said)


def test_a_thousand_steps_are_needed() -> None:
    said = answer(RULE, growing(healthy(600), lambda at: 10 + 6 * at))
    assert said.state == "not enough evidence"
    assert "1000 steps" in said.reason


def test_without_memory_figures_it_says_so() -> None:
    said = answer(RULE, job(healthy()))
    assert said.state == "not enough evidence"
    assert "cgroup" in said.reason


def test_the_nodes_shared_memory_stands_in_and_is_less_sure() -> None:
    store = job(healthy())
    put(store, "node", lambda second: {"shmem_bytes": second * GIB // 20, "mem_total_bytes": None})
    [finding] = answer(RULE, store).findings
    assert finding.confidence == "not-proven"
    assert "the node's shared memory" in finding.evidence[0].text


def test_the_process_that_grew_is_named() -> None:
    store = growing(healthy(), lambda at: 10 + 6 * at)
    for row in store.nodes["n1"].tables["process"]:
        row["rss_bytes"] = row["mono_ns"] // 100
    assert "the worker process pt_data_worker of rank 0 grew most" in text_of(answer(RULE, store))


def jumpy(pause: str = "lock") -> Rank:
    """Every 50th step waits 1.5 s for something that is no storage."""
    return train(one_rank(), 1200, 0.05, lambda k: (1.5 if k % 50 == 25 else 0.002, pause))


def test_large_shared_memory_and_slow_steps_that_nothing_explains() -> None:
    store = job(jumpy())
    put(store, "node", lambda second: {"shmem_bytes": 150 * GIB, "mem_total_bytes": 512 * GIB})
    [finding] = answer(RULE, store).findings
    assert finding.confidence == "not-proven"
    assert "29% of the node's memory" in finding.evidence[0].text


def test_large_shared_memory_is_no_fault_when_storage_explains_the_steps() -> None:
    store = job(jumpy("storage"))
    put(store, "node", lambda second: {"shmem_bytes": 150 * GIB, "mem_total_bytes": 512 * GIB})
    assert answer(RULE, store).state != "fired"


def test_storage_is_not_blamed_for_growth() -> None:
    report = analyse_store(growing(healthy(), lambda at: 10 + 6 * at))
    assert report["verdict"] == "healthy"
    assert {one["rule"] for one in report["findings"]} == {"F09"}
