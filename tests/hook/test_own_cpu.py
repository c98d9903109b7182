"""CPU time in waits in which the training thread reads by itself: counted in the ring's header."""

from __future__ import annotations

import struct

import pytest

from tests.hook.scripts import Job

READS = """
    import os, time, slurm_io_hook

    def items(count, burn_s, sleep_s):
        for number in range(count):
            until = time.thread_time() + burn_s
            while time.thread_time() < until:
                pass
            time.sleep(sleep_s)
            yield number
"""


def own_waits(job: Job) -> list[tuple[int, int]]:
    """(wait, CPU) ns of loaders 1 to 24."""
    (path,) = job.ring_folder.iterdir()
    return list(struct.iter_unpack("<QQ", path.read_bytes()[128 : 128 + 24 * 16]))  # type: ignore[arg-type]


def test_work_in_a_wait_counts_and_sleep_does_not(job: Job) -> None:
    job.ok(READS + "    list(slurm_io_hook.watch(items(40, 0.002, 0.004)))")
    (wait_ns, cpu_ns), *others = own_waits(job)
    assert others == [(0, 0)] * 23
    waits = [batch.end - batch.start for batch in job.ring().batches]
    # The first is left out: it starts workers, opens files, imports.
    assert wait_ns == sum(waits[1:])
    assert 39 * 2_000_000 <= cpu_ns <= wait_ns - 39 * 3_900_000


def test_loaders_count_apart(job: Job) -> None:
    job.ok(
        READS
        + """
    list(slurm_io_hook.watch(items(10, 0.0, 0.003)))
    list(slurm_io_hook.watch(items(10, 0.003, 0.0)))
    """
    )
    (slept, slept_cpu), (burnt, burnt_cpu) = own_waits(job)[:2]
    assert slept - slept_cpu >= 9 * 3_000_000
    assert 9 * 3_000_000 <= burnt_cpu <= burnt
    assert slept_cpu < burnt_cpu


def test_short_waits_cost_no_clock(job: Job) -> None:
    """Nor is the wait counted that follows one: nobody read the clock at its begin."""
    job.ok(READS + "    list(slurm_io_hook.watch(range(1000)))")
    (wait_ns, _), *_ = own_waits(job)
    batches = job.ring().batches
    long = [batch.end - batch.start for batch in batches if batch.end - batch.start >= 200_000]
    assert wait_ns <= sum(long)
    assert len(batches) == 1000


def test_the_twenty_fifth_loader_writes_nowhere(job: Job) -> None:
    job.ok(
        READS
        + """
    for _ in range(26):
        list(slurm_io_hook.watch(items(3, 0.0, 0.001)))
    """
    )
    assert all(wait_ns > 0 for wait_ns, _ in own_waits(job))
    assert job.ring().greeting["rank"] is None


@pytest.mark.torch
def test_workers_are_not_counted(job: Job) -> None:
    pytest.importorskip("torch")
    job.ok(
        """
        import time, torch
        from torch.utils.data import DataLoader, Dataset
        class Slow(Dataset):
            def __len__(self): return 12
            def __getitem__(self, i):
                time.sleep(0.005)
                return i
        list(DataLoader(Slow(), num_workers=1))
        list(DataLoader(Slow(), num_workers=0))
        """
    )
    with_workers, without = own_waits(job)[:2]
    assert with_workers == (0, 0)
    assert without[0] > 11 * 5_000_000
