"""What `scontrol listpids` prints, and asking it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.errors import SlurmError
from slurm_io.slurm import listpids
from slurm_io.slurm.listpids import ask_listpids, parse_listpids

SAMPLE = Path(__file__).parents[1] / "fixtures" / "slurm" / "listpids-22.05.8.txt"


def test_batch_script_tasks_and_their_children() -> None:
    text = SAMPLE.read_text()
    assert parse_listpids(text, "1") == [23222, 23227, 23223, 23224, 23239, 23240, 23241]
    assert parse_listpids(text, "11") == []


def test_an_extern_step_without_a_process_and_other_jobs_are_left_out() -> None:
    text = (
        "PID      JOBID    STEPID   LOCALID GLOBALID\n"
        "-1       12       extern   0       0       \n"
        "0        12       0        0       0       \n"
        "70       12       extern   -       -       \n"
        "70       12       0        1       5       \n"
        "71       123      batch    0       0       \n"
    )
    assert parse_listpids(text, "12") == [70]


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    assert all(pid > 0 for pid in parse_listpids(text, "1"))


def scontrol(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in scontrol's place."""
    path = folder / "scontrol"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(listpids, "SLURM_FOLDERS", (str(folder),))


def test_job_and_node_are_named_and_the_answer_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol(tmp_path, 'test "$*" = "listpids 1 t1" && cat ' + str(SAMPLE), monkeypatch)
    assert 23239 in ask_listpids("1", "t1", 5)


@pytest.mark.parametrize(
    "said",
    ["JobId=1 does not exist on node t2.", "There are no steps for job 1 on node t1.",
     "Job 1 does not exist on this node.", "No job steps exist on this node."],
)  # fmt: skip
def test_a_job_without_a_step_here_has_no_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    scontrol(tmp_path, f"echo PID JOBID; echo '{said}' >&2; exit 1", monkeypatch)
    assert ask_listpids("1", "t1", 5) == []


def test_any_other_failure_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scontrol(tmp_path, "echo 'scontrol: error: no slurm.conf' >&2; exit 1", monkeypatch)
    with pytest.raises(SlurmError, match=r"no slurm\.conf"):
        ask_listpids("1", "t1", 5)
    scontrol(tmp_path, "sleep 30", monkeypatch)
    with pytest.raises(SlurmError, match="no answer"):
        ask_listpids("1", "t1", 0.2)
