"""Steps in a job's output: a file that the user chose, read by root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_io.reservation.swap.job_steps import read_steps, steps_in
from slurm_io.reservation.swap.world import SeenSteps
from slurm_io.slurm.infos import JobInfo

LINE = "iter {}: loss 2.0000, time 200.00ms, mfu 40.00%\n"


def job(folder: Path, uid: int | None = None) -> JobInfo:
    return JobInfo(
        "7", "RUNNING", uid=os.getuid() if uid is None else uid, batch=True, work_dir=str(folder)
    )


def output(folder: Path, *steps: int) -> Path:
    path = folder / "slurm-7.out"
    path.write_text("".join(LINE.format(each) for each in steps))
    return path


def test_first_and_last_step_of_the_newest_run(tmp_path: Path) -> None:
    output(tmp_path, 1, 2, 3)
    assert read_steps(job(tmp_path)) == SeenSteps(1, 1, 3)
    output(tmp_path, 1, 2, 3, 4, 2, 3)
    seen = read_steps(job(tmp_path))
    assert (seen.first, seen.last) == (2, 3) and seen.run == 2


def test_an_output_without_steps_is_not_unreadable(tmp_path: Path) -> None:
    output(tmp_path)
    assert read_steps(job(tmp_path)) == SeenSteps()


@pytest.mark.parametrize("kind", ["nothing", "fifo", "folder", "device"])
def test_what_is_no_file_says_why_and_hangs_nobody(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "slurm-7.out"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    seen = read_steps(job(tmp_path))
    assert seen.last is None and "cannot be read here" in seen.why


@pytest.mark.root
def test_root_reads_it_with_the_users_rights(tmp_path: Path) -> None:
    """A link to what only root may read gives the user nothing."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    secret = tmp_path / "secret"
    secret.write_text(LINE.format(42))
    secret.chmod(0o600)
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    (tmp_path / "slurm-7.out").symlink_to(secret)
    assert read_steps(job(tmp_path, uid=0)).last == 42
    seen = read_steps(job(tmp_path, uid=5))
    assert seen.last is None and "Permission denied" in seen.why


def test_only_the_end_of_a_long_output_is_read(tmp_path: Path) -> None:
    path = output(tmp_path)
    with path.open("w") as file:
        file.write("x" * 100 + "\n" + "y" * 3_000_000 + "\n" + LINE.format(9))
    assert read_steps(job(tmp_path)).last == 9


def test_a_job_without_batch_script_has_no_such_file(tmp_path: Path) -> None:
    output(tmp_path, 1)
    for change in ({"batch": False}, {"work_dir": ""}, {"uid": None}):
        given = {"uid": 0, "batch": True, "work_dir": str(tmp_path), **change}
        assert read_steps(JobInfo("7", "RUNNING", **given)).why  # type: ignore[arg-type]


def test_hostile_bytes() -> None:
    assert steps_in(b"\xff\0iter 3\r\r\x1b[2K" * 1000) == SeenSteps()
