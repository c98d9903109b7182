"""``srun slurm-io run``, without our Prolog: one store, one sampler a node, every rank in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import slurm_io
from slurm_io.store.reader import open_job
from tests.labs.hooked_cluster import HookedCluster, Run

pytestmark = [pytest.mark.cluster, pytest.mark.root]
PAYLOAD = Path(__file__).with_name("payload.py")
OURS = Path(slurm_io.__file__).parents[1]
WITHOUT_HOOKS = "--comment=slurm-io: profile=off"


def run_script(*steps: str) -> str:
    """`steps` are srun's options and the end of the command."""
    path = f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{OURS}"\n'
    return path + "\n".join(step.replace("RUN", "$PYTHON -m slurm_io run") for step in steps)


def names(run: Run) -> list[str]:
    return sorted(path.name for path in run.folder.glob("slurm-io-*"))


def test_four_tasks_on_two_nodes_are_one_recording(cluster: HookedCluster) -> None:
    script = run_script(f"srun -N2 -n4 RUN -- $PYTHON {PAYLOAD} 6; echo ended with $?")
    run = cluster.submit(script, WITHOUT_HOOKS, "--ntasks=4", nodes=2)
    assert run.wait() == "COMPLETED"
    assert "ended with 0" in run.output, run.output
    assert run.output.count("trained to the end") == 4
    assert names(run) == [f"slurm-io-{run.job}.step0"]
    store = run.folder / names(run)[0]
    report = json.loads((store / "report.json").read_text())
    assert report["coverage"]["nodes_expected"] == ["t1", "t2"]
    assert report["coverage"]["nodes_seen"] == ["t1", "t2"]
    assert report["coverage"]["ranks_seen"] == 4
    assert report["job"]["state"] == "COMPLETED"
    ranks = [rank["rank"] for node in open_job(store).nodes.values() for rank in node.meta["ranks"]]
    assert sorted(ranks) == [0, 1, 2, 3]
    assert not (store / "run.log").exists()
    assert list(Path("/dev/shm").glob(f"*-step-{run.job}.0.0-*-t[12]-*")) == []


def test_each_step_has_its_store_and_srun_sees_a_tasks_failure(cluster: HookedCluster) -> None:
    fails = "sh -c 'exit $SLURM_PROCID'"
    script = run_script(
        f"srun -n2 RUN --no-report -- {fails}; echo first $?",
        "srun -n2 RUN --no-report -- true; echo second $?",
    )
    run = cluster.submit(script, WITHOUT_HOOKS, "--ntasks=2")
    assert run.wait() == "COMPLETED"
    assert "first 1" in run.output, run.output
    assert "second 0" in run.output, run.output
    assert names(run) == [f"slurm-io-{run.job}.step{number}" for number in (0, 1)]
