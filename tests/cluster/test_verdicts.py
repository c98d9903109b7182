"""The main job: sbatch of an unmodified PyTorch script, and a verdict beside its output.

The same scenarios as the grid's, here by way of Prolog, TaskProlog, the hook that attaches itself,
and Epilog. The truth is the training script's own stopwatch.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.grid.judge import judge
from tests.grid.scenarios import SCENARIOS, Scenario
from tests.labs.hooked_cluster import HookedCluster, Run
from tests.labs.slowfs import SlowFs, fuse_missing
from tests.labs.train import make_dataset, read_truth, storage_idle_share, train_command

pytestmark = [pytest.mark.cluster, pytest.mark.root, pytest.mark.torch]
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@contextmanager
def dataset(scenario: Scenario, folder: Path) -> Iterator[Path]:
    """The scenario's dataset, on the slow file system where it says so."""
    backing = make_dataset(folder / "data", scenario.files, scenario.file_bytes)
    if not scenario.needs_fuse:
        yield backing
        return
    with SlowFs(backing, folder / "slow", scenario.slow, cache=scenario.cache) as slow:
        yield slow.mountpoint


def trained(cluster: HookedCluster, scenario: Scenario, data: Path) -> Run:
    """The scenario's training run as a batch job, ended."""
    assert cluster.user_python("torch") == cluster.user_python()
    command = train_command(data, Path("truth"), scenario.train)
    script = f"export OMP_NUM_THREADS=1\n$PYTHON {shlex.join(command[1:])}"
    run = cluster.submit(script)
    assert run.wait(timeout_s=150) == "COMPLETED", run.output
    return run


@pytest.mark.fuse
@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("slow-read-2-workers", "storage"),
        ("healthy", "healthy"),
        ("cpu-prep-2-workers", "cpu-prep"),
    ],
)
def test_the_report_beside_the_output_says_so(
    cluster: HookedCluster, name: str, verdict: str
) -> None:
    scenario = BY_NAME[name]
    if scenario.needs_fuse and fuse_missing():
        pytest.skip(str(fuse_missing()))
    folder = cluster.root / f"lab-{name}"
    folder.mkdir()
    with dataset(scenario, folder) as data:
        run = trained(cluster, scenario, data)
        report = run.report()
    if os.environ.get("SLURM_IO_KEEP_REPORT"):
        Path(os.environ["SLURM_IO_KEEP_REPORT"]).write_text(run.report_text())
    assert report["verdict"] == verdict, run.report_text()
    truth = storage_idle_share(read_truth(run.folder / "truth"))
    outcome = judge(scenario, report, truth)
    assert outcome.problems == (), run.report_text()
    assert verdict.replace("-", " ").upper() in run.report_text().splitlines()[0]
    assert (run.folder / f"slurm-{run.job}.out").exists()
    if scenario.needs_fuse:
        assert str(folder / "slow") in run.report_text()
    keep = os.environ.get("SLURM_IO_KEEP_REPORTS")
    if keep:
        (Path(keep) / f"{name}.txt").write_text(run.report_text())
