"""The spool is full: the sampler goes on, says what it dropped and why, the rest is readable."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_io.store.seal import seal_spool
from tests.crash.stores import bring_home, report_of, said_missing, steps_of
from tests.crash.watched_job import wait_until, watched_job
from tests.sampler.running_sampler import facts, make_spool, sampler, wait_for

TINY_BYTES = 512 * 1024
QUICK: dict[str, Any] = {"interval_s": 0.1, "flush_s": 0.1, "budget_share": 0.5}


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a megabyte."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a tmpfs")
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={TINY_BYTES},nr_inodes=64", "tiny", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine allows no mounts")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def run_until_dropped(spool: Path, full: Callable[[], bool]) -> dict[str, Any]:
    """A sampler that fills its spool, then lives a second in that state; its ``self.json``."""
    with sampler(spool) as process:
        wait_for(spool / "meta.json")
        wait_until(full)
        time.sleep(1.0)
        assert process.poll() is None, "it goes on"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    return facts(spool, "self.json")


def assert_the_report_says(spool: Path, store: Path, own: dict[str, Any], reason: str) -> None:
    said = said_missing(report_of(bring_home(spool, store)))
    assert f"{own['dropped_rows']} rows were dropped: {reason}" in said
    assert len(steps_of(store)) == own["rows"]["steps"] > 0


@pytest.mark.root
def test_a_full_file_system(tiny: Path, tmp_path: Path) -> None:
    with watched_job(tmp_path / "rings") as job:
        spool = make_spool(tiny, job.pid, **QUICK)
        share_rings(spool, tmp_path / "rings")
        ballast = tiny / "ballast"
        ballast.write_bytes(bytes(TINY_BYTES // 4))
        own = run_until_dropped(spool, lambda: free_bytes(tiny) == 0)
    assert own["dropped_rows"] > 0
    assert own["drop_reason"] == "ENOSPC"
    meta = facts(spool, "meta.json")
    assert (meta["clean_end"], meta["end_reason"]) == (True, "told to stop")
    assert_the_report_says(spool, tmp_path / "store", own, "ENOSPC")


@pytest.mark.root
def test_room_that_comes_back_is_used(tiny: Path, tmp_path: Path) -> None:
    with watched_job(tmp_path / "rings") as job:
        spool = make_spool(tiny, job.pid, **QUICK)
        share_rings(spool, tmp_path / "rings")
        ballast = tiny / "ballast"
        ballast.write_bytes(bytes(TINY_BYTES // 4))
        with sampler(spool) as process:
            wait_until(lambda: (spool / "meta.json").exists() and free_bytes(tiny) == 0)
            time.sleep(0.5)
            before = sum(path.stat().st_size for path in spool.glob("*.arrows"))
            ballast.unlink()
            wait_until(lambda: used_bytes(spool) > before + 20_000)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
    own = facts(spool, "self.json")
    assert own["drop_reason"] == "ENOSPC"
    assert_the_report_says(spool, tmp_path / "store", own, "ENOSPC")


@pytest.mark.root
def test_a_full_spool_is_sealed_as_far_as_it_goes(tiny: Path, tmp_path: Path) -> None:
    with watched_job(tmp_path / "rings") as job:
        spool = make_spool(tiny, job.pid, **QUICK)
        share_rings(spool, tmp_path / "rings")
        own = run_until_dropped(spool, lambda: free_bytes(tiny) == 0)
    (tiny / "ballast").write_bytes(bytes(free_bytes(tiny)))
    result = seal_spool(spool)
    assert result.failed, "no room for any sealed part"
    assert_the_report_says(spool, tmp_path / "store", own, "ENOSPC")


def test_spool_max_bytes(tmp_path: Path) -> None:
    with watched_job(tmp_path / "rings") as job:
        spool = make_spool(tmp_path, job.pid, spool_max_bytes=60_000, **QUICK)
        own = run_until_dropped(spool, lambda: used_bytes(spool) >= 60_000)
    assert own["dropped_rows"] > 0
    assert own["drop_reason"] == "spool_max_bytes"
    assert used_bytes(spool) < 120_000
    assert_the_report_says(spool, tmp_path / "store", own, "spool_max_bytes")


def share_rings(spool: Path, rings: Path) -> None:
    """The rings lie elsewhere: a full spool is not the hook's trouble."""
    spec = json.loads((spool / "sampler.json").read_text())
    (spool / "sampler.json").write_text(json.dumps({**spec, "ring_dir": str(rings)}))


def free_bytes(folder: Path) -> int:
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize


def used_bytes(spool: Path) -> int:
    return sum(path.stat().st_size for path in spool.glob("*.arrows"))
