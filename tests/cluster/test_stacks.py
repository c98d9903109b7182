"""profile=full on a real cluster: the sampler of root looks at the job as the user of the job."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_io.collectors.stacks.program import find_py_spy
from slurm_io.store.reader import open_job
from tests.labs.hooked_cluster import HookedCluster

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.root,
    pytest.mark.skipif(find_py_spy(os.environ.get("PATH")) is None, reason="py-spy not installed"),
]
PAYLOAD = Path(__file__).with_name("payload.py")


def test_a_job_that_asks_for_everything_has_its_stacks(cluster: HookedCluster) -> None:
    run = cluster.submit(f"$PYTHON {PAYLOAD} 22", "--comment=slurm-io: profile=full")
    assert run.wait() == "COMPLETED"
    report = run.report()
    store = open_job(run.store())
    told = next(iter(store.nodes.values())).meta["sources"]["stacks"]
    assert told["state"] == "on", told
    assert told["as_user"] == "the job's user" and told["refused"] == {}
    rows = store.table("stacks").to_pylist()
    assert sum(row["samples"] for row in rows) > 5
    assert {row["role"] for row in rows} == {"rank"}
    assert any("payload.py" in row["folded"] for row in rows)
    assert report["coverage"]["stacks"] == "on"


def test_others_jobs_start_no_py_spy(cluster: HookedCluster) -> None:
    run = cluster.submit(f"$PYTHON {PAYLOAD} 6")
    assert run.wait() == "COMPLETED"
    report = run.report()
    assert report["coverage"]["stacks"] == "off"
    assert not [one for one in report["coverage"]["missing"] if one["source"] == "stacks"]
