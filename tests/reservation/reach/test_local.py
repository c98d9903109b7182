from __future__ import annotations

import io

import pytest

from slurm_io.reservation.reach import LocalReach
from slurm_io.reservation.reach.limits import ReachLimits
from slurm_io.reservation.reach.node_part import main


def test_this_machine_answers_under_the_name_it_is_asked_by() -> None:
    answers = LocalReach(["t1"]).ask(["t1", "t2"], ["--version"], 30)
    assert answers["t1"].rc == 0 and answers["t1"].stdout.startswith(b"slurm-io")
    assert answers["t2"].rc is None and answers["t2"].problem is not None


def test_an_exit_code_and_its_words_come_back() -> None:
    answer = LocalReach().ask(["t1"], ["dataset", "no-such-command"], 30)["t1"]
    assert answer.rc == 2 and b"no-such-command" in answer.stderr


def test_an_answer_over_the_bound_is_a_problem() -> None:
    answer = LocalReach(limits=ReachLimits(stdout_bytes=10)).ask(["t1"], ["--help"], 30)["t1"]
    assert (answer.rc, answer.stdout) == (None, b"")
    assert answer.problem == "its answer is longer than 10 bytes"


def test_a_command_that_does_not_end_is_a_problem() -> None:
    answer = LocalReach().ask(["t1"], ["--version"], 0.001)["t1"]
    assert answer.rc is None and "did not end within 0.001 s" in str(answer.problem)


def test_a_nodes_part_prints_one_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "t7")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main(["30,10,1000,1000", "--version"]) == 0
    out = capsys.readouterr().out
    assert out.startswith('slurm_io.["t7", 0, "slurm-io')
