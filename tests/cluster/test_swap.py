"""Swaps on a real cluster: a node of a running training is lost, a spare takes over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.labs.cluster_parts import wait_until
from tests.labs.spare_cluster import SpareCluster

pytestmark = pytest.mark.cluster


def show(answer: dict[str, Any]) -> None:
    """For people who run this with -s."""
    for step in answer.get("steps", ()):
        print(f"{step['name']:<12} {step['outcome']:<8} {step['seconds']:6.1f}  {step['text']}")
    print({name: round(took_s, 1) for name, took_s in answer["facts"]["phases"].items()})


def test_a_training_goes_on_when_a_node_of_it_dies(spares: SpareCluster) -> None:
    """One spare, with filler on it, so that Slurm alone could not start the job again."""
    spares.cluster.scontrol("update", "ReservationName=train", "Nodes=t[1-4]")
    job, training = spares.train()
    filler = spares.fill("t4")
    bad, spare = "t3", "t4"
    spares.kill(bad)

    answer = spares.swap("--bad", bad, "--spare", spare)
    show(answer)
    assert (answer["state"], answer["rc"]) == ("done", 0), answer
    assert sorted(spares.slurm.job(job).nodes) == ["t1", "t2", "t4"]
    assert sorted(spares.members()) == ["t1", "t2", "t4"]
    node = spares.slurm.node(bad)
    assert node.is_drained and node.reason is not None
    assert node.reason.text.startswith(f"slurm_io: swap to {spare}, job {job}: ")

    (first, second) = training.starts
    assert first[0] == 0 and second[0] >= 10  # it resumed from a checkpoint
    facts = answer["facts"]
    assert facts["step_before"] is not None
    assert facts["lost_steps"] == facts["step_before"] - second[0], facts
    assert "its output shows step" in facts["first_step_by"]
    assert {"detect", "decide", "clear", "reservation", "requeue", "first_step"} <= set(
        facts["phases"]
    )
    held = spares.slurm.job(filler)
    assert held.state == "PENDING" and not held.is_held


def test_a_dry_run_and_a_plan_change_nothing(spares: SpareCluster) -> None:
    job, _ = spares.train()
    filler = spares.fill("t4")
    before = spares.state_of_world([job, filler])
    planned = spares.ours("plan", "train", "--json")
    assert planned.returncode == 0, planned.stderr
    found = {each["node"]: each["answer"] for each in json.loads(planned.stdout)}
    assert set(found) == {"t1", "t2", "t3"}
    assert {answer["facts"]["spare"] for answer in found.values()} == {"t5"}
    text = spares.ours("plan", "train").stdout
    assert f"job {job}, if one of t[1-3] fails" in text, text
    assert spares.state_of_world([job, filler]) == before

    spares.fail("t3")
    before = spares.state_of_world([job, filler])
    done = spares.ours("swap", "train", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "t5 would take over from t3" in done.stdout
    assert "nodes of train: t[1-5] -> t[1-2,4-5]" in done.stdout
    assert spares.state_of_world([job, filler]) == before
    assert not list(spares.root.glob("ours-*/reservations/train/swap*"))


def test_arrays_and_parts_of_jobs_are_refused_in_words(spares: SpareCluster) -> None:
    task = spares.cluster.sbatch(
        "#!/bin/sh\nsleep 600\n", "--reservation=train", "--array=1-2", "-w", "t1"
    )
    wait_until(lambda: spares.slurm.job(f"{task}_1").state == "RUNNING", 40, "the task", 0.3)
    spares.fail("t1")
    answer = spares.swap("--job", f"{task}_1", "--force")
    assert answer["rc"] == 3 and "job array" in answer["stderr"], answer
    spares.slurm.cancel(str(task))
    options = ["--reservation=train", "-w", "t2", ":", "--reservation=train", "-w", "t3"]
    parts_of = spares.cluster.sbatch("#!/bin/sh\nsleep 600\n", *options)
    assert spares.slurm.job(f"{parts_of}+1").het is not None
    answer = spares.swap("--bad", "t1", "--job", str(parts_of), "--force")
    assert answer["rc"] == 3 and "heterogeneous" in answer["stderr"], answer
    assert "t1" in spares.members() and not spares.slurm.node("t1").is_drained
