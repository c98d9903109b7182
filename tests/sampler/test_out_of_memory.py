"""When memory runs out the sampler dies before the job."""

from __future__ import annotations

import time
from pathlib import Path

from tests.sampler.running_sampler import make_spool, sampler, wait_for


def test_a_jobs_sampler_goes_before_any_job_when_memory_runs_out(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, None, mode="slurm")
    with sampler(spool) as process:
        wait_for(spool / "meta.json")
        adjustment, end_s = Path(f"/proc/{process.pid}/oom_score_adj"), time.monotonic() + 10
        while adjustment.read_text() != "500\n" and time.monotonic() < end_s:
            time.sleep(0.05)
        assert adjustment.read_text() == "500\n"
