"""GPUs in a whole sampler: rows in the store, facts, its helper's cost, and how it all ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slurm_io.store.reader import open_job
from slurm_io.store.seal import seal_spool
from tests.labs.children import children_of
from tests.labs.gpu.stand_in import StandIn, uuid
from tests.sampler.running_sampler import facts, job, make_spool, wait_for

SLEEPER = "import time; time.sleep(120)"
# /proc must be the real one, for the job's processes: so the driver is only said to be loaded.
SAMPLER = """
import sys
from pathlib import Path
from slurm_io.collectors import gpu
from slurm_io.gpus import serve
from slurm_io.gpus.nvml import library
from slurm_io.sampler.main import run
library.PATHS = (sys.argv[1],)
serve.nvidia_is_here = lambda proc_root: True
gpu._is_driver_loaded = lambda context: True
sys.exit(run(Path(sys.argv[2])))
"""


@contextmanager
def sampler(lab: StandIn, spool: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", SAMPLER, str(lab.library), str(spool)])
    try:
        wait_for(spool / "meta.json")
        yield process
    finally:
        process.kill()
        process.wait()


def helper_of(pid: int) -> int:
    end_s = time.monotonic() + 20
    while time.monotonic() < end_s:
        for child in children_of(pid):
            if Path(f"/proc/{child}/comm").read_text() == "slurm_io_gpu\n":
                return int(child)
        time.sleep(0.02)
    raise AssertionError("no helper")


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def rows_of(spool: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = open_job(spool).table("gpu").to_pylist()
    return found


def test_a_job_with_gpus(tmp_path: Path) -> None:
    lab = StandIn(tmp_path / "gpu", gpus=4)
    with job(SLEEPER) as sleeper:
        spool = make_spool(
            tmp_path, sleeper.pid, interval_s=0.2, gpus="SLURM_JOB_GPUS=1,3", waits_hz=1.0
        )
        with sampler(lab, spool) as process:
            helper = helper_of(process.pid)
            time.sleep(4)
            process.send_signal(signal.SIGTERM)
            asked_s = time.monotonic()
            assert process.wait(10) == 0
            assert time.monotonic() - asked_s < 1.5
        assert is_gone(helper)
    source = facts(spool, "meta.json")["sources"]["gpu"]
    assert source["state"] == "on"
    assert source["whose"] == {"known": True, "from": "SLURM_JOB_GPUS=1,3", "doubt": ""}
    assert [each["uuid"] for each in source["gpus"]] == [uuid(1), uuid(3)]
    own = facts(spool, "self.json")
    assert own["collectors"]["gpu"]["failures"] == 0
    assert own["children_cpu_s"] > 0
    seal_spool(spool)
    rows = rows_of(spool)
    assert {row["gpu"] for row in rows} == {1, 3}
    # Asked each second of its own period, whatever the grid: two rows each time.
    assert len(rows) >= 4
    assert rows[-1]["power_w"] == 655.25 and rows[-1]["util_share"] is not None
    keys = [(row["ts_ns"], row["gpu"], row["mig"]) for row in rows]
    assert len(set(keys)) == len(keys)


def test_a_sampler_that_is_killed_takes_its_helper_along(tmp_path: Path) -> None:
    lab = StandIn(tmp_path / "gpu")
    lab.tell({"hang.nvmlDeviceGetPowerUsage": 1})  # it does not even listen
    with job(SLEEPER) as sleeper:
        spool = make_spool(tmp_path, sleeper.pid, interval_s=0.2, gpus="all")
        with sampler(lab, spool) as process:
            helper = helper_of(process.pid)
            time.sleep(1.5)
            assert not is_gone(helper)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            end_s = time.monotonic() + 10
            while not is_gone(helper):
                assert time.monotonic() < end_s
                time.sleep(0.02)


def test_a_hanging_gpu_does_not_hold_the_sampler_up(tmp_path: Path) -> None:
    lab = StandIn(tmp_path / "gpu")
    lab.tell({"0.hang.nvmlDeviceGetPowerUsage": 1})
    with job(SLEEPER) as sleeper:
        spool = make_spool(tmp_path, sleeper.pid, interval_s=0.2, gpus="all")
        with sampler(lab, spool) as process:
            helper = helper_of(process.pid)
            time.sleep(3)
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        assert is_gone(helper)
    own = facts(spool, "self.json")
    assert own["ticks"] >= 10
    assert own["rows"].get("node", 0) >= 2
