"""The lab's control groups hold what is started in them, limit it, and are gone afterwards."""

from __future__ import annotations

import subprocess
import sys

import pytest

from slurm_io.host.job_cgroups import WhichJob, find_job_cgroups
from tests.labs.job_group import SYS, JobGroup, job_group_missing

missing = job_group_missing()
pytestmark = [pytest.mark.root, pytest.mark.skipif(missing is not None, reason=str(missing))]


def found(group: JobGroup) -> list[str]:
    job = WhichJob(group.job, node_name=group.node)
    return sorted(name for one in find_job_cgroups(SYS, job) for name in one.folders)


def test_a_command_starts_inside_and_a_sampler_would_find_the_groups() -> None:
    with JobGroup(memory_bytes=2**30) as group:
        assert found(group) == ["cpu", "cpuacct", "memory"]
        show = [sys.executable, "-c", "print(open('/proc/self/cgroup').read())"]
        done = subprocess.run(group.wrapped(show), capture_output=True, text=True, check=True)
        inside = [line for line in done.stdout.splitlines() if f"job_{group.job}" in line]
        assert len(inside) == 3
    assert found(group) == []


def test_a_quota_of_cpu_time_is_kept() -> None:
    burn = "import time\nwhile time.process_time() < 0.5: pass\nprint(time.monotonic())"
    with JobGroup(cpus=0.25) as group:
        subprocess.run(group.wrapped([sys.executable, "-c", burn]), check=True, timeout=60)
        told = (group.folder("cpu") / "cpu.stat").read_text()
    assert int(dict(line.split() for line in told.splitlines())["nr_throttled"]) > 5
