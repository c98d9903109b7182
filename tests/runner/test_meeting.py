"""The meeting folder's name can be guessed: what another user puts there is never used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_io.runner.meeting import meet
from slurm_io.runner.step import Step
from tests.runner.srun_tasks import FakeStep, all_ended, fresh_job

STEP = Step("7", 0, 1, "n1", task=0, tasks=2, nodes=("n1",))
NAME = "x-step-7.0.1-0-n1-1"


def test_the_first_leads_in_a_folder_of_its_own(tmp_path: Path) -> None:
    meeting = meet(STEP, [tmp_path], "x-")
    assert meeting is not None
    assert (meeting.folder, meeting.leads) == (tmp_path / NAME, True)
    assert meeting.folder.stat().st_mode & 0o777 == 0o700
    assert meeting.seats() == 1
    meeting.dissolve()
    assert list(tmp_path.iterdir()) == []


def test_a_closed_meeting_takes_nobody(tmp_path: Path) -> None:
    first = meet(STEP, [tmp_path], "x-")
    assert first is not None
    first.open()
    first.close()
    second = meet(Step("7", 0, 1, "n1", task=1, tasks=2, nodes=("n1",)), [tmp_path], "x-")
    assert second is not None
    assert (second.folder.name, second.leads) == ("x-step-7.0.1-0-n1-2", True)


@pytest.mark.parametrize("trap", ["link", "dangling", "file", "open to others"])
def test_a_trap_in_its_place_is_left_alone(tmp_path: Path, trap: str) -> None:
    shared, other, target = tmp_path / "shared", tmp_path / "other", tmp_path / "target"
    for folder in (shared, other, target):
        folder.mkdir(mode=0o700)
    place = shared / NAME
    if trap == "link":
        place.symlink_to(target)
    elif trap == "dangling":
        place.symlink_to(tmp_path / "absent")
    elif trap == "file":
        place.write_text("")
    else:
        place.mkdir()
        place.chmod(0o777)
    meeting = meet(STEP, [shared, other], "x-")
    assert meeting is not None
    assert (meeting.folder, meeting.leads) == (other / NAME, True)
    assert list(target.iterdir()) == []
    assert not (tmp_path / "absent").exists()
    assert meet(STEP, [shared], "x-") is None


@pytest.mark.root
def test_another_users_folder_is_left_alone(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give folders away")
    place = tmp_path / NAME
    place.mkdir(mode=0o700)
    (place / "leader").write_text(f"{os.getpid()} 1")
    os.chown(place, 33, 33)
    assert meet(STEP, [tmp_path], "x-") is None
    assert sorted(path.name for path in place.iterdir()) == ["leader"]


def test_tasks_that_cannot_meet_all_run_and_record_alone(tmp_path: Path) -> None:
    step = FakeStep(tmp_path, fresh_job())
    (tmp_path / "tmp").mkdir()
    traps = [
        folder / f"slurm-io-{os.getuid()}-step-{step.job}.0.0-0-n1-1"
        for folder in (Path("/dev/shm"), tmp_path / "tmp")
    ]
    for trap in traps:
        trap.symlink_to(tmp_path)
    options = ("-o", "mine", "--no-report")
    tasks = [step.start(task, "sh", "-c", f"exit {task}", options=options) for task in (0, 1)]
    try:
        with all_ended(*tasks):
            assert [task.wait(timeout=60) for task in tasks] == [0, 1]
    finally:
        for trap in traps:
            trap.unlink()
    assert {path.name for path in tmp_path.iterdir()} == {"tmp", "mine", "mine-2"}
