"""The training job's own truth is worth believing: it adds up and agrees with slowfs's ledger."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.labs.slowfs import SlowFs, fuse_missing
from tests.labs.slowfs_settings import SlowFsSettings
from tests.labs.train import (
    RankTruth,
    Read,
    blocked_intervals_ns,
    make_dataset,
    overlap_ns,
    read_truth,
    storage_idle_share,
    train_command,
    train_environment,
)

pytest.importorskip("torch")
MS = 1_000_000
needs_fuse = pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing()))


def run(data: Path, truth: Path, ranks: int = 1, **options: object) -> list[RankTruth]:
    command = train_command(data, truth, options, ranks)
    subprocess.run(command, env=train_environment(), check=True, timeout=120)
    return read_truth(truth)


def rank(waits: list[int], storage: list[int], compute: list[int], save: list[int]) -> RankTruth:
    """A rank without workers whose clock starts at 0 and whose steps follow without gaps.

    Each batch is one item, blocked for `storage` at the end of the wait.
    """
    starts, ends, reads, now_ns = [], [], [], 0
    for wait, blocked, rest, saved in zip(waits, storage, compute, save, strict=True):
        starts.append(now_ns)
        reads.append([(now_ns, now_ns + wait, blocked)])
        now_ns += wait + rest + saved
        ends.append(now_ns)
    zeros = [0] * len(waits)
    lists = {
        "wait_start_ns": starts, "wait_ns": waits,
        "compute_ns": compute,
        "save_ns": save, "step_end_ns": ends, "gc_ns": zeros, "update_ns": zeros,
        "reduce_ns": zeros, "validate_ns": zeros, "iter_ns": [0], "epoch_end_ns": [0],
    }  # fmt: skip
    return RankTruth(0, lists, reads)


def test_blocked_times_of_several_readers_are_united() -> None:
    reads: list[list[Read]] = [[(0, 10, 10), (5, 20, 10)], [(28, 40, 10)]]
    assert blocked_intervals_ns(reads) == [(0, 20), (30, 40)]
    assert overlap_ns([(0, 20), (30, 40)], 15, 33) == 8


def test_a_ready_batch_tells_the_cost_of_handing_over() -> None:
    """Four waits of 2 ms for batches read before, one of 30 ms while a worker was blocked."""
    starts = [step * 50 * MS for step in range(6)]
    waits = [0, *[2 * MS] * 4, 30 * MS]
    reads: list[list[Read]] = [[(start - 9, start - 1, 8)] for start in starts]
    reads[5] = [(starts[5], starts[5] + 25 * MS, 25 * MS)]
    truth = RankTruth(0, {"wait_start_ns": starts, "wait_ns": waits}, reads)
    assert truth.handover_ns == 2 * MS
    assert truth.storage_waits_ns() == [0, 0, 0, 0, 0, 25 * MS]


def test_the_first_wait_is_start_up() -> None:
    truth = rank([100, 0, 0], [100, 0, 0], [10, 10, 10], [0, 0, 0])
    assert (truth.start_ns, truth.window_ns) == (100, 30)
    assert storage_idle_share([truth]) == 0.0


def test_one_rank_loses_its_blocked_waits_and_its_checkpoints() -> None:
    truth = rank([0, 10, 10], [0, 8, 8], [10, 10, 10], [0, 0, 20])
    assert storage_idle_share([truth]) == pytest.approx((8 + 8 + 20) / 70)


def test_the_slowest_rank_costs_all_of_them_and_slack_hides_a_wait() -> None:
    fast = rank([0, 0], [0, 0], [10, 30], [0, 0])
    slow = rank([0, 20], [0, 20], [10, 10], [0, 0])
    # step 2: the slow rank needs 20 + 10, the other one computes for 30 anyway
    assert storage_idle_share([fast, slow]) == 0.0
    slow = rank([0, 30], [0, 30], [10, 10], [0, 0])
    assert storage_idle_share([fast, slow]) == pytest.approx(2 * 10 / (40 + 50))


@pytest.mark.torch
@pytest.mark.fuse
@needs_fuse
def test_waits_of_a_slow_mount_are_the_delays_it_injected(tmp_path: Path) -> None:
    make_dataset(tmp_path / "data", 16, 4096)
    with SlowFs(tmp_path / "data", tmp_path / "mount", SlowFsSettings(read_latency_s=0.1)) as slow:
        [truth] = run(slow.mountpoint, tmp_path / "truth", steps=12, batch=1, compute_ms=20)
    injected_ns = slow.ledger()["classes"]["read"]["delay_ns"]
    blocked_ns = sum(read[2] for reads in truth.reads for read in reads)
    assert injected_ns <= blocked_ns <= 1.5 * injected_ns  # a busy machine wakes readers late
    assert sum(truth.waits_ns()) >= sum(truth.storage_waits_ns()) >= injected_ns * 11 / 12 * 0.95
    assert truth.accounted_ns() == pytest.approx(truth.window_ns, rel=0.03)


@pytest.mark.torch
@pytest.mark.fuse
@needs_fuse
def test_two_ranks_and_all_parts_add_up(tmp_path: Path) -> None:
    make_dataset(tmp_path / "data", 16, 4096)
    with SlowFs(tmp_path / "data", tmp_path / "mount", SlowFsSettings(read_latency_s=0.03)) as slow:
        truths = run(
            tmp_path / "data", tmp_path / "truth", ranks=2, steps=30, batch=1, compute_ms=20,
            slow_rank=1, slow_data=slow.mountpoint, checkpoint_every=10, checkpoint_mib=1,
            checkpoint_dir=tmp_path, gc_every=10, gc_objects=1000, validate_every=15,
            validation_data=tmp_path / "data",
        )  # fmt: skip
    assert [truth.rank for truth in truths] == [0, 1]
    for truth in truths:
        assert truth.accounted_ns() == pytest.approx(truth.window_ns, rel=0.03)
        for part in ("save_ns", "validate_ns", "gc_ns"):
            assert truth.total_ns(part) > 0
    assert sum(truths[1].storage_waits_ns()) > 10 * sum(truths[0].storage_waits_ns())
    assert storage_idle_share(truths) > 0.15


@pytest.mark.torch
@pytest.mark.parametrize("reader", ["cpu", "sleep"])
def test_waits_without_storage_count_as_none(tmp_path: Path, reader: str) -> None:
    make_dataset(tmp_path / "data", 2, 4096)
    [truth] = run(
        tmp_path / "data", tmp_path / "truth", reader=reader, item_ms=10, batch=2, steps=20,
        compute_ms=10, workers=1, context="fork",
    )  # fmt: skip
    assert sum(truth.waits_ns()) > 0.3 * truth.window_ns
    assert storage_idle_share([truth]) == 0.0
