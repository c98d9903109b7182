"""F06: long loads in storage; unpickling, fast loads, and loads in training are others."""

from __future__ import annotations

from tests.analysis.rules.stores import answer, healthy, job, put, text_of
from tests.analysis.stand_in import EPOCH_NS, NS, Rank, StandInStore, one_rank

RULE = "f06_slow_load"
GB = 10**9


def loading(seconds: float = 30.0, size: int | None = 3 * GB, **more: object) -> Rank:
    rank = one_rank()
    rank.event("load", seconds, bytes=size, path="/scratch/model/weights.pt", **more)
    for k in range(300):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(0.05)
    return rank


def store_of(rank: Rank, storage: int = 15, cpu: int = 5, seconds: int = 30) -> StandInStore:
    """Samples of the load: so many a second of each class."""
    store = job(rank)
    base = {"interval_ns": NS, "rank": 0, "role": "rank", "phase": "load", "loader": None,
            "passes": storage + cpu, "processes": 1}  # fmt: skip
    zero = {
        f"n_{name}": 0
        for name in (
            "storage",
            "net",
            "pipe",
            "lock",
            "sleep",
            "cpu",
            "gpu",
            "other",
            "unknown",
            "fault",
        )
    }
    for second in range(100, 100 + seconds):
        clock = {"ts_ns": EPOCH_NS + (second + 1) * NS, "mono_ns": (second + 1) * NS}
        store.nodes["n1"].tables["waits"] += [
            {**clock, **base, **zero, "mount": "/scratch", "fstype": "nfs4", "n_storage": storage},
            {**clock, **base, **zero, "n_cpu": cpu},
        ]
    return store


def test_a_long_load_in_storage() -> None:
    said = answer(RULE, store_of(loading()))
    [finding] = said.findings
    assert finding.confidence == "proven"
    assert finding.where.mounts == ("/scratch",)
    assert finding.where.files == ("/scratch/model/weights.pt",)
    assert "3.00 GB at 100 MB/s" in text_of(said)
    assert finding.lost_gpu_s is not None and 20 < finding.lost_gpu_s < 25


def test_ten_seconds_separate() -> None:
    assert answer(RULE, store_of(loading(9.0, GB // 10), seconds=9)).state == "quiet"


def test_unpickling_is_cpu_work() -> None:
    said = answer(RULE, store_of(loading(), storage=2, cpu=18))
    assert said.state == "quiet"
    assert "10% of it in storage" in said.reason


def test_a_large_file_that_came_fast_is_not_slow() -> None:
    assert answer(RULE, store_of(loading(size=30 * GB))).state == "quiet"


def test_an_unknown_size_leaves_one_signal() -> None:
    assert answer(RULE, store_of(loading(size=None))).findings[0].confidence == "likely"


def test_a_load_during_training_is_a_restore_not_a_start() -> None:
    rank = healthy()
    rank.event("load", 30.0, bytes=GB, path="/scratch/a.pt")
    rank.batch(0.002, "pipe", index=1200)
    rank.compute(0.05)
    assert answer(RULE, job(rank)).state == "quiet"


def test_a_load_in_a_thread_keeps_nobody_waiting() -> None:
    assert answer(RULE, store_of(loading(blocking=False))).state == "quiet"


def test_a_long_load_nobody_sampled_is_not_enough() -> None:
    said = answer(RULE, job(loading(), waits=False))
    assert said.state == "not enough evidence"
    assert "waits" in said.reason


def test_what_the_page_cache_gave_is_told() -> None:
    store = store_of(loading())
    put(
        store,
        "process",
        lambda second: {"pid": 1000, "starttime": 1, "role": "rank", "comm": "python",
                        "rchar_bytes": 10**8, "read_bytes": 10**7},
    )  # fmt: skip
    assert "10% of the bytes came from the storage layer" in text_of(answer(RULE, store))
