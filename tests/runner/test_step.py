"""What a task's environment says of its step."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slurm_io.runner.step import Step, read_step

TASK = {
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "3",
    "SLURM_PROCID": "5",
    "SLURM_STEP_NUM_TASKS": "10",
    "SLURM_STEP_NODELIST": "gpu[01-03]",
    "SLURM_STEP_TASKS_PER_NODE": "4,3(x2)",
    "SLURM_NODEID": "2",
    "SLURM_STEP_LAUNCHER_PORT": "40123",
    "SLURM_RESTART_COUNT": "1",
}


def test_a_task_of_a_step() -> None:
    nodes = ("gpu01", "gpu02", "gpu03")
    assert read_step(TASK, "gpu03") == Step("12", 1, 3, "gpu03", 5, 10, nodes, 3, 40123)
    first = read_step({**TASK, "SLURM_NODEID": "0"}, "gpu01")
    assert first is not None
    assert first.local_tasks == 4


def test_batch_scripts_shells_and_the_world_outside_are_no_step() -> None:
    assert read_step({}, "gpu01") is None
    assert read_step({**TASK, "SLURM_STEP_ID": "4294967291"}, "gpu01") is None
    without = {name: value for name, value in TASK.items() if name != "SLURM_STEP_ID"}
    assert read_step(without, "gpu01") is None
    assert read_step(TASK, "../../etc") is None


def test_a_list_without_this_node_is_not_believed() -> None:
    for text in ("other[1-2]", "", "gpu[", "gpu[1-99999999]"):
        step = read_step({**TASK, "SLURM_STEP_NODELIST": text}, "gpu01")
        assert step is not None
        assert step.nodes == ("gpu01",)


@given(st.dictionaries(st.sampled_from(sorted(TASK)), st.text(max_size=40)))
def test_anything_may_stand_there(changed: dict[str, str]) -> None:
    step = read_step({**TASK, **changed}, "gpu01")
    assert step is None or (step.job.isdigit() and "gpu01" in step.nodes)
