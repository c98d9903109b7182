"""The sampler as a process: what it writes, how it ends, what it survives."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from slurm_io.errors import StoreError
from slurm_io.sampler.main import claim
from slurm_io.store.reader import open_job
from slurm_io.store.schema import TABLES
from slurm_io.store.seal import seal_spool
from tests.sampler.ring_maker import starttime_of
from tests.sampler.running_sampler import facts, job, make_spool, sampler, wait_for

SLEEPER = "import time; time.sleep(120)"
RANK = """
import os, sys, time
from pathlib import Path
from tests.sampler.ring_maker import RingMaker
ring = RingMaker(Path(sys.argv[1]), n_records=1024, greeting={"rank": 2, "world_size": 4})
ring.event(1, parts=ring.text(1, b'{"id": 0, "num_workers": 1}'), text_id=1)
if os.fork() == 0:
    time.sleep(120)
while True:
    ring.phase(1, 0)
    began = time.monotonic_ns()
    time.sleep(0.03)
    ring.batch(began, time.monotonic_ns(), flags=2)
    ring.phase(0)
    time.sleep(0.01)
"""


def table(spool: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = open_job(spool).table(name).to_pylist()
    return rows


def test_a_job_with_a_rank_leaves_a_whole_record(tmp_path: Path) -> None:
    (tmp_path / "rings").mkdir()
    with job(RANK, tmp_path / "rings") as rank:
        spool = make_spool(tmp_path, rank.pid, interval_s=0.25)
        with sampler(spool) as process:
            wait_for(spool / "meta.json")
            early = facts(spool, "meta.json")
            assert (early["clean_end"], early["end_ts_ns"], early["schema"]) == (False, None, 1)
            time.sleep(4)
            process.send_signal(signal.SIGTERM)
            asked_s = time.monotonic()
            assert process.wait(10) == 0
            assert time.monotonic() - asked_s < 1.0
    meta, own = facts(spool, "meta.json"), facts(spool, "self.json")
    assert (meta["clean_end"], meta["end_reason"], meta["node"]) == (True, "told to stop", "here")
    assert [(r["rank"], r["pid"], r["world_size"]) for r in meta["ranks"]] == [(2, rank.pid, 4)]
    assert [(x["id"], x["num_workers"]) for x in meta["loaders"]] == [(0, 1)]
    assert (meta["workers_seen"], meta["processes_seen"]) == (1, 2)
    assert own["hook"]["overrun"] == own["hook"]["refused"] == own["dropped_rows"] == 0
    assert all(use["failures"] == 0 for use in own["collectors"].values()), own["collectors"]

    steps = table(spool, "steps")
    indexes = [row["batch"] for row in steps]
    assert indexes == list(range(indexes[0], indexes[0] + len(steps)))
    assert len(steps) > 50
    assert {(row["pid"], row["rank"]) for row in steps} == {(rank.pid, 2)}
    waits = [row for row in table(spool, "waits") if row["rank"] == 2]
    assert {row["role"] for row in waits} == {"rank", "worker"}
    in_wait = [row for row in waits if row["role"] == "worker" and row["phase"] == "data_wait"]
    assert sum(row["n_sleep"] for row in in_wait) >= 0.9 * sum(row["passes"] for row in in_wait) > 0
    assert {row["role"] for row in table(spool, "process")} >= {"rank", "worker"}
    assert own["rows"]["steps"] == len(steps)
    for name in TABLES:
        for row in table(spool, name):
            assert (
                abs(row["ts_ns"] - row["mono_ns"] - meta["clock"]["realtime_minus_monotonic_ns"])
                == 0
            )


def test_it_ends_by_itself_when_the_job_is_gone(tmp_path: Path) -> None:
    with job("import time; time.sleep(1.5)") as root:
        spool = make_spool(tmp_path, root.pid, interval_s=0.25)
        with sampler(spool) as process:
            assert process.wait(30) == 0
    meta = facts(spool, "meta.json")
    assert (meta["clean_end"], meta["end_reason"]) == (True, "job ended")


def test_in_slurm_mode_it_ends_without_processes_when_slurm_cannot_be_asked(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, None, mode="slurm", interval_s=0.1, idle_exit_s=0.1)
    with sampler(spool) as process:
        assert process.wait(60) == 0
    assert facts(spool, "meta.json")["end_reason"] in ("no process of the job", "job ended")


def test_a_job_shorter_than_a_second_is_on_record(tmp_path: Path) -> None:
    with job(SLEEPER) as root:
        spool = make_spool(tmp_path, root.pid)
        with sampler(spool) as process:
            wait_for(spool / "sampler.pid")
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
    assert facts(spool, "meta.json")["clean_end"] is True


def test_a_stopped_sampler_counts_late_and_missed_ticks(tmp_path: Path) -> None:
    with job(SLEEPER) as root:
        spool = make_spool(tmp_path, root.pid, interval_s=0.25)
        with sampler(spool) as process:
            wait_for(spool / "meta.json")
            time.sleep(1)
            process.send_signal(signal.SIGSTOP)
            time.sleep(1.5)
            process.send_signal(signal.SIGCONT)
            time.sleep(0.6)
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
    own = facts(spool, "self.json")
    assert own["late_ticks"] >= 1
    assert own["missed_ticks"] >= 4
    assert own["late_max_s"] >= 1.0
    gaps = [row["interval_ns"] / 1e9 for row in table(spool, "node")]
    assert max(gaps) >= 1.2, "the row after the gap says how long it covers"
    assert sum(gap < 0.05 for gap in gaps[:-1]) == 0, "nothing is bunched"


def test_sigint_and_sighup_are_the_commands_business(tmp_path: Path) -> None:
    with job(SLEEPER) as root:
        spool = make_spool(tmp_path, root.pid)
        with sampler(spool) as process:
            wait_for(spool / "meta.json")
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGHUP)
            time.sleep(0.3)
            assert process.poll() is None


def wait_until_it_runs(spool: Path, pid: int) -> None:
    for _ in range(1000):
        wait_for(spool / "sampler.pid")
        if facts(spool, "sampler.pid")["pid"] == pid:
            return
        time.sleep(0.01)
    raise AssertionError("it never claimed its spool")


def kill_at_random(tmp_path: Path, times: int, seed: int) -> None:
    """kill -9, again and again in one spool: every stream stays readable, whole rows only."""
    chance = random.Random(seed)
    (tmp_path / "rings").mkdir()
    with job(RANK, tmp_path / "rings") as rank:
        spool = make_spool(tmp_path, rank.pid, interval_s=0.05, flush_s=0.05, rotate_s=0.3)
        for number in range(times):
            with sampler(spool) as process:
                if number % 4:  # each fourth one dies wherever its start-up happens to be
                    wait_until_it_runs(spool, process.pid)
                time.sleep(chance.random() * 0.9)
                process.kill()
    seal_spool(spool, wait_s=60)  # a killed sampler's sealing child may still be at work
    found = {name: table(spool, name) for name in TABLES}
    assert len(found["steps"]) > times
    for name in ("meta.json", "self.json", "sampler.json"):
        json.loads((spool / name).read_text())


def test_kill_9_at_any_moment_leaves_a_readable_spool(tmp_path: Path) -> None:
    kill_at_random(tmp_path, times=10, seed=1)


@pytest.mark.long
def test_kill_9_at_any_moment_many_times(tmp_path: Path) -> None:
    kill_at_random(tmp_path, times=50, seed=2)


def test_one_spool_has_one_sampler(tmp_path: Path) -> None:
    with job(SLEEPER) as root:
        spool = make_spool(tmp_path, root.pid)
        with sampler(spool) as first:
            wait_for(spool / "meta.json")
            with sampler(spool) as second:
                assert second.wait(20) == 3
                assert second.stderr is not None
                message = second.stderr.read().decode()
            assert f"process {first.pid}" in message
            assert message.count("\n") == 1
            assert first.poll() is None


def test_a_dead_claim_is_taken_over(tmp_path: Path) -> None:
    gone = subprocess.Popen(["sleep", "60"])
    claimed = {"pid": gone.pid, "starttime": starttime_of(gone.pid)}
    (tmp_path / "sampler.pid").write_text(json.dumps(claimed))
    with pytest.raises(StoreError, match="stop that sampler first"):
        claim(tmp_path)
    gone.kill()
    gone.wait()
    claim(tmp_path)
    assert json.loads((tmp_path / "sampler.pid").read_text()) == {
        "pid": os.getpid(),
        "starttime": starttime_of(os.getpid()),
    }


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"job": 3}', "not json"])
def test_a_bad_specification_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "sampler.json").write_text(content)
    with sampler(tmp_path) as process:
        assert process.wait(20) == 3
        assert process.stderr is not None
        message = process.stderr.read().decode()
    assert message.startswith("slurm_io.sampler: ")
    assert message.count("\n") == 1
    assert "sampler.json" in message


def test_the_resident_process_stays_light(tmp_path: Path) -> None:
    program = """
import sys, time, json
from pathlib import Path
from slurm_io.sampler.main import read_spec, sample
from slurm_io.sampler.stopping import StopSignal
stop = StopSignal()
stop.install()
spec = read_spec(Path(sys.argv[1]), None)
sample(spec, stop)
heavy = {"pyarrow", "polars", "click", "rich", "psutil", "numpy", "torch", "asyncio"}
print(json.dumps(sorted(heavy & set(sys.modules))))
"""
    with job("import time; time.sleep(1)") as root:
        spool = make_spool(tmp_path, root.pid, interval_s=0.2)
        done = subprocess.run(
            [sys.executable, "-c", program, str(spool)], capture_output=True, text=True, check=True
        )
    assert json.loads(done.stdout) == []
    assert facts(spool, "self.json")["rss_peak_bytes"] < 25 * 2**20
