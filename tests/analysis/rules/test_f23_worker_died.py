"""F23: lost workers and full shared memory; ordinary errors and page cache are neither."""

from __future__ import annotations

import json

import pytest

from tests.analysis.rules.stores import GIB, answer, healthy, job, put, text_of
from tests.analysis.stand_in import Rank, StandInNode, StandInStore

RULE = "f23_worker_died"


def failing(how: str | None, error: str = "RuntimeError") -> Rank:
    rank = healthy()
    detail = {"loader": 0, "epoch": 0, "error": error}
    if how is not None:
        detail["worker"] = how
    rank.event("error", 0.1, failed=True, detail=json.dumps(detail))
    return rank


def with_shm(store: StandInStore, used: float) -> StandInStore:
    row = {"mount": "/dev/shm", "fstype": "tmpfs", "size_bytes": 100 * 10**9,
           "avail_bytes": int((1 - used) * 100 * 10**9)}  # fmt: skip
    put(store, "capacity", lambda second: row, interval=False, every_s=30)
    return store


def with_memory(store: StandInStore, anon: float, file: float = 0.0) -> StandInStore:
    row = {"path": "job_42", "version": 2, "mem_limit_bytes": 100 * GIB,
           "mem_current_bytes": int((anon + file) * 100 * GIB),
           "mem_anon_bytes": int(anon * 100 * GIB), "mem_shmem_bytes": 0}  # fmt: skip
    put(store, "cgroup", lambda second: row)
    return store


@pytest.mark.parametrize(
    ("how", "title", "command"),
    [
        ("is killed by signal: Bus error", "shared memory ran out", "--shm-size"),
        ("is killed by signal: Killed", "memory runs out", "#SBATCH --mem"),
        ("is killed by signal: Segmentation fault", "crashed", "num_workers=0"),
        ("is killed by signal: Aborted", "crashed", "PYTHONFAULTHANDLER"),
        ("exited unexpectedly", "vanished", "dmesg"),
    ],
)
def test_how_it_ended_decides_the_remedy(how: str, title: str, command: str) -> None:
    said = answer(RULE, job(failing(how)))
    [finding] = said.findings
    assert title in finding.title
    assert command in text_of(said)
    assert (finding.severity, finding.confidence) == ("bad", "likely")
    assert (finding.where.nodes, finding.where.ranks) == (("n1",), (0,))


def test_one_loss_told_twice_is_one() -> None:
    rank = failing("is killed by signal: Killed")
    rank.event("error", 0.1, failed=True, detail='{"worker": "exited unexpectedly"}')
    [finding] = answer(RULE, job(rank)).findings
    assert "1 worker lost: is killed by signal: Killed" in finding.evidence[0].text


def test_bus_error_and_full_shared_memory_are_proof() -> None:
    store = with_shm(job(failing("is killed by signal: Bus error")), 0.99)
    [finding] = answer(RULE, store).findings
    assert finding.confidence == "proven"
    assert finding.where.mounts == ("/dev/shm",)


def test_killed_at_the_memory_limit_is_proof() -> None:
    store = with_memory(job(failing("is killed by signal: Killed")), anon=0.99)
    assert answer(RULE, store).findings[0].confidence == "proven"


def test_page_cache_at_the_limit_kills_nobody() -> None:
    store = with_memory(job(failing("is killed by signal: Killed")), anon=0.2, file=0.8)
    assert answer(RULE, store).findings[0].confidence == "likely"


def test_full_shared_memory_alone_is_a_warning() -> None:
    [finding] = answer(RULE, with_shm(job(healthy()), 0.97)).findings
    assert (finding.severity, finding.confidence) == ("warn", "likely")
    assert answer(RULE, with_shm(job(healthy()), 0.8)).state == "quiet"


def test_an_error_of_the_users_own_code_is_no_lost_worker() -> None:
    assert answer(RULE, job(failing(None, error="ValueError"))).state == "quiet"


@pytest.mark.parametrize("detail", ["{", "[1]", '{"worker": 5}', '{"worker": ""}'])
def test_nonsense_in_detail_is_no_lost_worker(detail: str) -> None:
    rank = healthy()
    rank.event("error", 0.1, failed=True, detail=detail)
    assert answer(RULE, job(rank)).state == "quiet"


def test_zombies_are_named_beside_it() -> None:
    store = job(failing("exited unexpectedly"))
    store.nodes["n1"].meta["processes"] = {"zombies": 2}
    assert "2 ended processes were never collected" in text_of(answer(RULE, store))


def test_a_worker_that_dies_before_the_first_batch_counts() -> None:
    node = StandInNode("n1", {})
    node.tables["events"] = failing("is killed by signal: Bus error").events
    assert answer(RULE, StandInStore(None, {"n1": node}, ("n1",))).state == "fired"


def test_without_a_hook_nobody_would_have_told() -> None:
    said = answer(RULE, StandInStore(None, {"n1": StandInNode("n1", {})}, ("n1",)))
    assert said.state == "not enough evidence"
    assert "hook" in said.reason
