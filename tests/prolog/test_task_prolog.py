"""task_prolog.sh: what Slurm reads on its stdout, under dash as on Debian."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from slurm_io.prolog.entry_scripts import Filling, script_text

HOOK = "/opt/site packages/slurm_io/hook/attach"


class Task:
    """A runtime folder and the script that reads it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "t1" / "7"
        (self.folder / "ring").mkdir(parents=True)
        self.script = root / "task_prolog.sh"
        self.script.write_text(script_text("task_prolog.sh", Filling("/p", "/c", 1, str(root))))
        self.script.chmod(0o755)
        self.write(restart="0\n", hook_path=f"{HOOK}\n", message="")

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text)

    def run(self, **changes: str) -> tuple[int, list[str]]:
        """Exit code and lines of one task's prolog; its stderr must stay empty."""
        environment = {"SLURMD_NODENAME": "t1", "SLURM_JOB_ID": "7", "SLURM_PROCID": "0", **changes}
        done = subprocess.run(
            [self.script], env=environment, capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()

    def exports(self, **changes: str) -> dict[str, str]:
        _, lines = self.run(**changes)
        pairs = (line.removeprefix("export ").split("=", 1) for line in lines if "export" in line)
        return dict(pair for pair in pairs if len(pair) == 2)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path)


def test_the_hook_goes_first_on_pythonpath(task: Task) -> None:
    assert task.exports() == {
        "PYTHONPATH": HOOK,
        "SLURM_IO_RING_DIR": str(task.folder / "ring"),
    }
    assert task.exports(PYTHONPATH="/mine:/yours")["PYTHONPATH"] == f"{HOOK}:/mine:/yours"


def test_a_task_of_a_job_step_inherits_it_and_does_not_get_it_twice(task: Task) -> None:
    assert "PYTHONPATH" not in task.exports(PYTHONPATH=f"{HOOK}:/mine")


def test_a_pythonpath_that_cannot_be_handed_on_line_by_line_is_left_alone(task: Task) -> None:
    assert task.run(PYTHONPATH="/a\nprint owned") == (0, [])


@pytest.mark.parametrize(
    "changes", [{"SLURM_JOB_ID": "8"}, {"SLURM_JOB_ID": ""}, {"SLURMD_NODENAME": "t2"}]
)
def test_without_a_runtime_folder_nothing_is_said(task: Task, changes: dict[str, str]) -> None:
    assert task.run(**changes) == (0, [])


def test_the_folder_of_an_earlier_run_of_the_job_is_ignored(task: Task) -> None:
    assert task.run(SLURM_RESTART_COUNT="1") == (0, [])
    task.write(restart="1\n")
    assert task.exports(SLURM_RESTART_COUNT="1")


def test_no_hook_path_means_no_environment(task: Task) -> None:
    task.write(hook_path="")
    assert task.run() == (0, [])


def test_the_message_is_told_once(task: Task) -> None:
    task.write(message="slurm-io: tier must be local or shared, not '%s\\n'.\nsecond line\n")
    _, first = task.run()
    assert first[:2] == [
        "print slurm-io: tier must be local or shared, not '%s\\n'.",
        "print second line",
    ]
    assert not any(line.startswith("print") for line in task.run(SLURM_STEP_ID="0")[1])


def test_where_no_mark_can_be_left_nothing_is_told_and_the_task_starts(task: Task) -> None:
    task.write(message="hello\n")
    (task.folder / "ring").rmdir()
    code, lines = task.run()
    assert code == 0
    assert [line.partition("=")[0] for line in lines] == [
        "export PYTHONPATH",
        "export SLURM_IO_RING_DIR",
    ]


def test_only_task_0_tells_it(task: Task) -> None:
    task.write(message="hello\n")
    assert not any(line.startswith("print") for line in task.run(SLURM_PROCID="1")[1])
    assert "print hello" in task.run(SLURM_STEP_ID="0")[1]


def test_stop_ends_the_task_with_its_code_after_the_message(task: Task) -> None:
    task.write(message="why\n", stop="4\n")
    assert task.run() == (4, ["print why"])
    assert task.run(SLURM_PROCID="5") == (4, [])


def test_a_node_that_stops_the_job_says_why_itself(task: Task) -> None:
    task.write(message="why\n", stop="3\n")
    assert task.run(SLURM_PROCID="9", SLURM_LOCALID="1") == (3, [])
    assert task.run(SLURM_PROCID="8", SLURM_LOCALID="0") == (3, ["print why"])


def test_a_warning_of_another_node_is_not_told_by_each(task: Task) -> None:
    task.write(message="a warning\n")
    _, lines = task.run(SLURM_PROCID="8", SLURM_LOCALID="0")
    assert not any(line.startswith("print") for line in lines)
