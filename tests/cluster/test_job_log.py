"""A job's output on a real cluster: also srun's, which goes into the batch job's file."""

from __future__ import annotations

import json

import pytest

from slurm_io.store.reader import open_job
from tests.labs.hooked_cluster import HookedCluster

pytestmark = [pytest.mark.cluster, pytest.mark.root]
STEPS = 120
PROGRAM = f"""
import time
try:
    from slurm_io_hook import watch
except ImportError:
    watch = iter
before = time.perf_counter()
for step, _ in enumerate(watch(range({STEPS}))):
    time.sleep(0.05)
    now = time.perf_counter()
    print(f"iter {{step}}: loss 2.5000, time {{(now - before) * 1000:.2f}}ms", flush=True)
    before = now
"""


@pytest.mark.parametrize("launcher", ["", "srun --label "], ids=["batch", "srun"])
def test_steps_are_read_from_the_batch_jobs_output(cluster: HookedCluster, launcher: str) -> None:
    script = f"cat > job.py <<'END'{PROGRAM}END\n{launcher}$PYTHON job.py"
    run = cluster.submit(script)
    assert run.wait() == "COMPLETED"
    log = run.report()["coverage"]["log"]
    assert (log["source"], log["agrees"]) == ("nanogpt", True), log
    rows = open_job(run.store()).table("log").to_pylist()
    assert [row["step"] for row in rows][-20:] == list(range(STEPS - 20, STEPS))
    meta = next(iter(open_job(run.store()).nodes.values())).meta
    facts = meta["sources"]["log"]
    assert facts["state"] == "on"
    assert facts["left_alone"].keys() == ({"pipe"} if launcher else set())
    assert [one["path"].endswith(f"slurm-{run.job}.out") for one in facts["files"]] == [True]
    assert all(json.loads(row["detail"])["run"] == 1 for row in rows)
