"""A process that hangs in execve takes its files in /proc along; the sampler goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from slurm_io.host.probe import probe
from slurm_io.host.read import read_bytes
from slurm_io.sampler.processes import ProcessTable
from slurm_io.store.reader import open_job
from tests.labs.hung_exec import HungExec, hung_exec
from tests.labs.slowfs import fuse_missing
from tests.sampler.running_sampler import facts, job, make_spool, sampler, wait_for

pytestmark = pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing()))

BUSY = """
import time
while True:
    time.sleep(0.01)
"""


def rows_between(spool: Path, table: str, from_ns: int, to_ns: int) -> list[dict[str, Any]]:
    rows = open_job(spool).table(table).to_pylist()
    return [row for row in rows if from_ns <= row["ts_ns"] < to_ns]


def assert_it_hangs(hung: HungExec) -> None:
    answer = probe(read_bytes, f"/proc/{hung.pid}/io", timeout_s=0.5)
    assert answer.state == "timed out", "this kernel lets io be read during execve"


def test_a_strangers_hung_exec_costs_the_sampler_seconds_and_no_more(tmp_path: Path) -> None:
    with hung_exec(tmp_path / "slow") as hung, job(BUSY) as busy:
        spool = make_spool(tmp_path, busy.pid, interval_s=0.25, budget_share=1.0)
        with sampler(spool) as process:
            wait_for(spool / "meta.json")
            hung.hang()
            assert_it_hangs(hung)
            began_ns = time.time_ns()
            time.sleep(7)
            end_ns = time.time_ns()
            process.send_signal(signal.SIGTERM)
            assert process.wait(5) == 0, "it has to end while the other one still hangs"
            hung.release()
    assert len({row["ts_ns"] for row in rows_between(spool, "process", began_ns, end_ns)}) >= 2
    late = rows_between(spool, "node", end_ns - 3_000_000_000, end_ns)
    assert len(late) >= 2, "in the last three seconds the sampler was at work"


def test_a_process_of_the_job_that_hangs_is_named_and_looked_at_again_later(
    tmp_path: Path,
) -> None:
    with hung_exec(tmp_path / "slow") as hung:
        spool = make_spool(tmp_path, hung.pid, interval_s=0.25, budget_share=1.0)
        with sampler(spool) as process:
            wait_for(spool / "meta.json")
            time.sleep(1)
            hung.hang()
            assert_it_hangs(hung)
            time.sleep(6)
            assert process.poll() is None, "its only process hangs, but the job is not over"
            released_ns = time.time_ns()
            hung.release()
            deadline_s = time.monotonic() + 30
            while not rows_between(spool, "process", released_ns, 1 << 63):
                assert time.monotonic() < deadline_s, "released, it is sampled again"
                time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            assert process.wait(5) == 0
    told = facts(spool, "meta.json")["processes"]["hung"]
    assert (hung.pid, True, False) in [(o["pid"], o["of_job"], o["still"]) for o in told]
    own = facts(spool, "self.json")
    assert all(use["failures"] == 0 for use in own["collectors"].values()), own["collectors"]
    again = rows_between(spool, "process", released_ns, 1 << 63)
    assert {row["pid"] for row in again} == {hung.pid}


def test_a_sampler_starts_beside_a_process_that_hangs_already(tmp_path: Path) -> None:
    with hung_exec(tmp_path / "slow") as hung, job(BUSY) as busy:
        spool = make_spool(tmp_path, busy.pid, interval_s=0.25, budget_share=1.0)
        hung.hang()
        assert_it_hangs(hung)
        with sampler(spool) as process:
            wait_for(spool / "meta.json", 8)
            time.sleep(1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(5) == 0
            hung.release()
    assert facts(spool, "meta.json")["processes_seen"] == 1


def test_while_one_process_hangs_only_the_jobs_own_are_looked_at() -> None:
    table = ProcessTable(Path("/proc"))
    table.refresh()
    assert table.get(os.getpid()) is not None
    table.leave_out(1)
    table.wanted = frozenset()
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        looks = [table.refresh()[0] for _ in range(12)]
        assert not any(looks), "any of them could hang too"
        assert not list(table.all())
        table.wanted = frozenset({stranger.pid})
        found = {process.pid for _ in range(12) for process in table.refresh()[0]}
        assert found == {stranger.pid}
        table.left_out.discard(1)
        assert 1 in {process.pid for _ in range(12) for process in table.refresh()[0]}
    finally:
        stranger.kill()
        stranger.wait()
