"""The command line of ``slurm-io attach``: what it takes, what it says, how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_io.commands.attach import nodes_of
from slurm_io.errors import UsageError

SLURM_IO = (sys.executable, "-m", "slurm_io")


def attach(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SLURM_IO, "attach", *arguments],
        cwd=folder, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "give either a job id or --pid"),
        (("12", "--pid", "3"), "give either a job id or --pid"),
        (("--pid", "3", "--node", "n1"), "--node belongs to a job id"),
        (("--pid", "0"), "--pid"),
        (("--pid", "x"), "--pid"),
        (("12", "--duration", "1"), "--duration"),
        (("12", "--duration", "nan"), "--duration"),
        (("12", "-o", ""), "it is empty"),
        (("12", "--node", "n[1"), "--node n[1"),
        (("12x",), "'12x' is no job id: give 123, 123_4 (array task) or 123+1 (het component)"),
    ],
)
def test_what_cannot_be_asked_for_is_a_usage_error(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    done = attach(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("pid", "code", "told"),
    [
        pytest.param(
            os.getpid(), 2, "it would watch itself: give the training process", id="its-own-caller"
        ),
        (1, 2, "it would watch itself"),
        (2**22 + 5, 3, "there is no process 4194309 on this node"),
    ],
)
def test_a_process_that_cannot_be_meant_is_one_line_and_no_store(
    tmp_path: Path, pid: int, code: int, told: str
) -> None:
    done = attach(tmp_path, "--pid", str(pid), "-o", "out", "--duration", "3")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1)
    assert told in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_slurm_that_does_not_know_or_cannot_be_asked_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [*SLURM_IO, "attach", "4294900000", "-o", "out"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
        env={name: value for name, value in os.environ.items() if name != "SLURM_CONF"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(("slurm-io: squeue", "slurm-io: Slurm knows no job"))
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_node_list_may_be_in_slurms_short_form() -> None:
    assert nodes_of("n[1-2],n1,x7") == ("n1", "n2", "x7")
    assert nodes_of(None) == ()
    with pytest.raises(UsageError, match="--node"):
        nodes_of("n]1")
