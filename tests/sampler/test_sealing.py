"""A long job's streams are sealed while it runs, by a child, never in the sampler itself."""

from __future__ import annotations

import json
import time
from pathlib import Path

from slurm_io.sampler.sealing import SealingChild
from slurm_io.store.reader import open_job
from tests.sampler.running_sampler import job, make_spool, sampler


def until(condition: object, limit_s: float = 30.0) -> bool:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.1)
    return False


def test_rotated_streams_become_parquet_while_the_sampler_lives(tmp_path: Path) -> None:
    with job("import time; time.sleep(60)") as work:
        spool = make_spool(tmp_path, work.pid, rotate_bytes=2000)
        with sampler(spool) as process:
            assert until(lambda: list(spool.glob("node-*.parquet")))
            assert process.poll() is None
            process.terminate()
            process.wait(timeout=20)
    told = json.loads((spool / "self.json").read_text())
    assert told["sealing"]["runs"] >= 1
    table = open_job(spool).table("node")
    assert table.num_rows == told["rows"]["node"]


def test_one_child_at_a_time_and_none_without_a_rotation(tmp_path: Path) -> None:
    child = SealingChild(tmp_path)
    child.tend(0, 0.0)
    assert child.runs == 0
    child.tend(1, 1.0)
    child.tend(2, 2.0)
    assert child.runs == 1
    child.stop()
    child.tend(2, 3.0)
    assert child.runs == 2
    child.stop()


def test_a_child_that_fails_is_counted_and_does_not_stop_sampling(tmp_path: Path) -> None:
    child = SealingChild(tmp_path / "gone")
    child.tend(1, 0.0)
    assert until(lambda: child.tend(1, 1.0) or child.failures)
