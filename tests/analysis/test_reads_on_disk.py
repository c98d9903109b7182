"""Cold and warm passes for real: ext4 on a loop device whose reads are limited, the page cache
between, a real training loop under ``slurm-io run``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.labs.block import BlockLab, block_lab_missing
from tests.labs.slowfs import REPOSITORY, SlowFs
from tests.labs.slowfs_settings import SlowFsSettings
from tests.labs.throttle import ReadThrottle, throttle_missing
from tests.labs.train import make_dataset, train_command, train_environment

FILES, FILE_BYTES = 240, 128 * 1024
DATASET_BYTES = FILES * FILE_BYTES
OPTIONS: dict[str, object] = {"batch": 4, "steps": 60, "epochs": 2, "compute_ms": 90}
READS_S = 25
TIMEOUT_S = 150

needs_slow_disk = pytest.mark.skipif(
    (why := block_lab_missing() or throttle_missing()) is not None, reason=str(why)
)


@contextmanager
def slow_disk(folder: Path, reads_s: int = READS_S) -> Iterator[tuple[Path, ReadThrottle]]:
    """A dataset that no cache holds yet, on a disk that gives so many reads a second."""
    with BlockLab(folder / "disk") as lab, ReadThrottle(lab.device, reads_s) as throttle:
        data = make_dataset(lab.mountpoint / "data", FILES, FILE_BYTES)
        os.sync()
        drop(data)
        yield data, throttle


def drop(data: Path) -> None:
    """Take the dataset out of the page cache."""
    for path in data.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def report_of(
    folder: Path,
    data: Path,
    throttle: ReadThrottle | None,
    dropped: bool = False,
    **options: object,
) -> dict[str, Any]:
    """The report of a run; with `dropped` the page cache loses the data twice a second.

    The sampler may use what it needs: slowed down on a busy machine, it could not tell passes of
    seconds apart, and the report would be silent.
    """
    train = train_command(data, folder / "truth", {**OPTIONS, **options})
    store = os.fspath(folder / "store")
    recorded = ["slurm_io", "run", "--budget", "0.5", "-o", store, "--"]
    command = [sys.executable, "-m", *recorded, *train]
    environment = {
        name: value for name, value in train_environment().items() if not name.startswith("SLURM_")
    }
    job = subprocess.Popen(
        command if throttle is None else throttle.wrapped(command),
        cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while job.poll() is None:
            assert time.monotonic() < deadline
            if dropped:
                drop(data)
            time.sleep(0.5)
    finally:
        job.kill()
        complaint = job.communicate()[1].decode(errors="replace")
    assert job.returncode == 0, complaint
    done = subprocess.run(
        [sys.executable, "-m", "slurm_io", "report", store, "-f", "json"],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=TIMEOUT_S, check=True,
    )  # fmt: skip
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def of_dataset(slices: list[dict[str, Any]], *path: str) -> list[float]:
    """A number of each pass over the dataset's size."""
    found = []
    for one in slices:
        value: Any = one
        for name in path:
            value = value[name]
        found.append(value / DATASET_BYTES)
    return found


@needs_slow_disk
@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.long), 2])
def test_the_first_pass_is_cold_and_the_second_comes_from_the_page_cache(
    tmp_path: Path, workers: int
) -> None:
    with slow_disk(tmp_path) as (data, throttle):
        report = report_of(tmp_path, data, throttle, workers=workers, persistent=True)
    asked = of_dataset(report["reads"]["slices"], "asked_bytes")
    # A row covers a second of the five that a pass takes: what it read is shared out by time.
    assert 0.75 <= asked[1] <= 1.25, asked
    check_contrast(report)


@needs_slow_disk
def test_workers_that_live_for_one_pass_are_seen_for_most_of_it(tmp_path: Path) -> None:
    """They are first looked at about a second after their birth: passes of more than ten."""
    with slow_disk(tmp_path, reads_s=10) as (data, throttle):
        report = report_of(tmp_path, data, throttle, workers=2, compute_ms=180)
    warm = report["reads"]["slices"][1]
    assert warm["seen_share"] - 0.2 <= warm["asked_bytes"] / DATASET_BYTES <= 1.05
    check_contrast(report)


def check_contrast(report: dict[str, Any]) -> None:
    """Cold, then warm, and a storage cause that this proves."""
    reads = report["reads"]
    slices = reads["slices"]
    assert [one["epochs"] for one in slices] == [[0, 0], [1, 1]]
    cold, *warm = of_dataset(slices, "storage_bytes", "low")
    assert 0.8 <= cold <= 1.05  # the first batches came before training began
    assert max(warm) < 0.05
    assert of_dataset(slices, "storage_bytes", "high") == [cold, *warm]
    assert slices[0]["held"]["high"] < 0.2
    assert min(one["held"]["low"] for one in slices[1:]) > 0.95
    waits = [one["wait_per_batch_s"] for one in slices]
    assert waits[0] > 4 * max(waits[1:])
    assert reads["contrast"]["agrees"] is True, reads["contrast"]["text"]
    assert report["verdict"] == "storage"
    # Restarting workers may be a finding of its own.
    [finding] = [one for one in report["findings"] if "waits for reads from" in one["title"]]
    assert finding["confidence"] == "proven"
    assert any("cold-epoch contrast" in one["text"] for one in finding["evidence"])


@pytest.mark.long
@needs_slow_disk
def test_a_cache_that_keeps_nothing_is_no_contrast(tmp_path: Path) -> None:
    with slow_disk(tmp_path) as (data, throttle):
        report = report_of(tmp_path, data, throttle, dropped=True, workers=2, persistent=True)
    slices = report["reads"]["slices"]
    stored = of_dataset(slices, "storage_bytes", "low")
    assert min(stored) > 0.8, stored
    assert max(one["held"]["high"] for one in slices) < 0.2
    assert report["reads"]["contrast"]["agrees"] is None
    assert "from storage again" in report["reads"]["contrast"]["text"]


def test_a_fuse_file_system_leaves_open_what_came_from_storage(tmp_path: Path) -> None:
    """The page cache survives opens here, and nobody counts what the daemon handed over."""
    make_dataset(tmp_path / "fast", FILES, FILE_BYTES)
    slow = SlowFsSettings(read_latency_s=0.02)
    with SlowFs(tmp_path / "fast", tmp_path / "slow", slow, cache="kernel") as mounted:
        report = report_of(tmp_path, mounted.mountpoint, None, workers=0)
    reads = report["reads"]
    cold, warm = reads["slices"]
    assert 0.75 <= warm["asked_bytes"] / DATASET_BYTES <= 1.25
    assert cold["storage_bytes"]["high"] is None
    assert warm["storage_bytes"]["high"] is None
    assert warm["held"]["low"] is None
    assert "FUSE" in warm["reason"]
    assert cold["wait_per_batch_s"] > 2 * warm["wait_per_batch_s"]
    assert reads["contrast"]["agrees"] is None
