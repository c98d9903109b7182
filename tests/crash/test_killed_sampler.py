"""kill -9 of the sampler at random moments: what was flushed is there, once, and the loss is said.

The sampler is the real one with its default rates, the ring is written by the real hook.
"""

from __future__ import annotations

import random
import signal
import subprocess
from pathlib import Path

import pytest

from slurm_io.errors import StoreError
from slurm_io.model import SamplerSpec
from slurm_io.store.reader import open_job
from slurm_io.store.seal import seal_spool
from tests.crash.killed_samplers import Killed, kill_samplers
from tests.crash.stores import assert_prefix, bring_home, report_of, said_missing, steps_of
from tests.crash.watched_job import batches_in_ring, stop, wait_until, watched_job
from tests.hook.ring_reader import Batch

AT_ONCE = 5
LATENESS_S = 1.0  # of the sampler itself, on a machine that runs other things
BOUND_S = SamplerSpec.flush_s + SamplerSpec.interval_s


def test_a_killed_sampler_loses_three_seconds_at_most(tmp_path: Path) -> None:
    kill_round_after_round(tmp_path, kills=8, seed=1)


@pytest.mark.long
def test_fifty_killed_samplers(tmp_path: Path) -> None:
    kill_round_after_round(tmp_path, kills=60, seed=2)


def kill_round_after_round(tmp_path: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    # Every fifth dies among its imports and first looks, every fifth after several flushes.
    early = [number % AT_ONCE == 4 for number in range(kills)]
    late = [number % AT_ONCE == 3 for number in range(kills)]
    lives_s = [chance.uniform(6.0, 9.0) if one else chance.uniform(0.3, 4.0) for one in late]
    begun, seen = 0, 0
    for first in range(0, kills, AT_ONCE):
        folder = tmp_path / f"round{first}"
        folder.mkdir()
        part = slice(first, first + AT_ONCE)
        with watched_job(folder / "rings") as job:
            killed = kill_samplers(folder, job.pid, lives_s[part], early[part])
            stop(job)
            truth = batches_in_ring(folder / "rings")
        for number, one in enumerate(killed):
            rows = check(one, truth, folder / f"store{number}")
            begun += one.ready_ns is not None
            seen += rows > 0
    assert begun >= kills // 2, "kills that hit nobody at work prove nothing"
    assert seen >= kills // 4


def check(killed: Killed, truth: list[Batch], store: Path) -> int:
    """One dead sampler's data, from the naked spool to the report; how many steps rows it held."""
    rows = steps_of_spool(killed)
    assert_prefix(rows, truth)
    assert len(rows) >= how_many_must_be_there(killed, truth)
    again = seal_spool(killed.spool)
    assert again.failed == {}
    report = report_of(bring_home(killed.spool, store))
    assert steps_of(store) == [{**row, "node": "here"} for row in rows]
    said = said_missing(report)
    if killed.ready_ns is None:
        assert "meta.json is missing" in said or "did not end cleanly" in said
    else:
        assert "did not end cleanly: the sampler was killed" in said
    return len(rows)


def steps_of_spool(killed: Killed) -> list[dict[str, object]]:
    try:
        rows = open_job(killed.spool).table("steps").drop_columns(["node"]).to_pylist()
    except StoreError as error:
        assert killed.ready_ns is None, error  # it wrote nothing at all yet
        return []
    return list(rows)


def how_many_must_be_there(killed: Killed, truth: list[Batch]) -> int:
    """Batches that lay in the ring longer than flush_s + one tick, and through the first tick."""
    if killed.ready_ns is None:
        return 0
    worked_s = (killed.killed_ns - killed.ready_ns) / 1e9
    if worked_s < SamplerSpec.interval_s + LATENESS_S:
        return 0
    oldest_lost_ns = killed.killed_ns - int((BOUND_S + LATENESS_S) * 1e9)
    first_flush_ns = killed.ready_ns
    return sum(batch.end < max(oldest_lost_ns, first_flush_ns) for batch in truth)


def test_the_job_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    with watched_job(tmp_path / "rings") as job:
        kill_samplers(tmp_path, job.pid, [1.2], [False])
        before = ring_length(tmp_path / "rings", job)
        wait_until(lambda: ring_length(tmp_path / "rings", job) > before + 10)
        assert job.poll() is None


def ring_length(rings: Path, job: subprocess.Popen[bytes]) -> int:
    stop(job)
    try:
        return len(batches_in_ring(rings))
    finally:
        job.send_signal(signal.SIGCONT)
