"""The ring overruns while the sampler cannot read it: the loss is counted and in the report."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from tests.crash.stores import bring_home, report_of, said_missing, steps_of
from tests.crash.watched_job import stop, wait_until, watched_job
from tests.sampler.running_sampler import facts, make_spool, sampler, wait_for

IN_BURSTS = """
import os, sys, time
import slurm_io_hook

def beats(burst):
    for number in range(400):
        time.sleep(0.005)
        yield number
    while not os.path.exists(burst):
        time.sleep(0.01)
        yield -1
    for number in range(60000):
        if number % 100 == 0:
            time.sleep(0.002)
        yield number
    while True:
        time.sleep(0.005)
        yield number

for _batch in slurm_io_hook.watch(beats(sys.argv[1])):
    pass
"""


def test_a_stopped_sampler_and_a_ring_written_three_times_over(tmp_path: Path) -> None:
    burst = tmp_path / "burst"
    rings = tmp_path / "rings"
    with watched_job(rings, IN_BURSTS, (str(burst),)) as job:
        spool = make_spool(tmp_path, job.pid, interval_s=0.25)
        with sampler(spool) as process:
            wait_for(spool / "meta.json")
            time.sleep(1)
            process.send_signal(signal.SIGSTOP)
            burst.touch()
            wait_until(lambda: written(rings) > 60_000)
            process.send_signal(signal.SIGCONT)
            time.sleep(1.5)
            stop(job)
            time.sleep(0.6)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        total = written(rings)
    own = facts(spool, "self.json")
    hook = own["hook"]
    assert hook["overrun"] > 60_000 - 2 * 16384
    assert hook["records"] + hook["overrun"] == total, "every record is either here or counted"
    assert hook["refused"] == 0
    report = report_of(bring_home(spool, tmp_path / "store"))
    assert report["coverage"]["gaps_s"] > 0.1
    assert report["coverage"]["hook"] == "partial"
    assert "ring overrun" in said_missing(report)
    indexes = [row["batch"] for row in steps_of(tmp_path / "store")]
    assert indexes == sorted(set(indexes)), "none doubled, order kept"
    assert 16_000 < len(indexes) < 60_000


def written(rings: Path) -> int:
    """The head of the only ring."""
    import struct

    (ring,) = rings.iterdir()
    head: int = struct.unpack_from("<Q", ring.read_bytes()[:64], 48)[0]
    return head
