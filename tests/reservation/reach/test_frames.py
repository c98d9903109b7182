"""Answers on their way through srun: whatever a node prints, it harms no other node's answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.reservation.reach.frames import Gathered, Said, lines_of

NODES = ("t1", "t2", "t3")


def gathered(most_chars: int = 100_000) -> Gathered:
    found = Gathered(NODES, most_chars)
    for task, node in enumerate(NODES):
        found.take_stderr(f"srun: launching StepId=5.0 on host {node}, 1 tasks: {task}")
    return found


def send(found: Gathered, task: int, said: Said) -> None:
    for line in lines_of(said):
        found.take_stdout(f"{task}: {line}".encode())


@given(st.text(), st.text(), st.none() | st.integers(-9, 300))
def test_any_answer_arrives_as_it_was(stdout: str, stderr: str, rc: int | None) -> None:
    found = gathered()
    send(found, 1, Said("t2", rc, stdout, stderr))
    answer = found.answers()["t2"]
    assert (answer.rc, answer.problem) == (rc, None)
    assert answer.stdout == stdout.encode("utf-8", "replace")
    assert answer.stderr == stderr.encode("utf-8", "replace")


def test_lines_are_short_enough_for_srun_to_leave_them_whole() -> None:
    lines = list(lines_of(Said("t1", 0, "é\n\0" * 5000)))
    assert len(lines) > 10
    assert max(map(len, lines)) < 1000
    assert all(line.isascii() and line.isprintable() for line in lines)


def test_answers_that_come_mixed_are_told_apart() -> None:
    found = gathered()
    parts = [list(lines_of(Said(node, 0, node * 2000))) for node in NODES]
    for row in zip(*parts, strict=True):
        for task, line in enumerate(row):
            found.take_stdout(f"{task}: {line}".encode())
    assert {node: each.stdout.decode() for node, each in found.answers().items()} == {
        node: node * 2000 for node in NODES
    }


def test_no_node_answers_for_another() -> None:
    found = gathered()
    send(found, 2, Said("t1", 0, "ready"))
    assert set(found.answers()) == {"t3"}
    assert "answers as 't1'" in str(found.answers()["t3"].problem)


def test_where_srun_does_not_say_which_task_is_where_two_claims_are_none() -> None:
    found = Gathered(NODES, 1000)
    send(found, 0, Said("t1", 0, "true"))
    send(found, 2, Said("t1", 0, "forged"))
    send(found, 1, Said("t9", 0, "of no node that was asked"))
    assert set(found.answers()) == {"t1"}
    assert found.answers()["t1"].rc is None


def test_a_second_answer_spoils_the_first() -> None:
    found = gathered()
    send(found, 0, Said("t1", 0, "a"))
    send(found, 0, Said("t1", 0, "b"))
    assert found.answers()["t1"].problem == "it answered twice"


def test_a_node_that_never_ends_its_answer_is_cut_off_and_costs_nobody_else() -> None:
    found = gathered(most_chars=5000)
    for _ in range(20):
        found.take_stdout(b"0: slurm_io+" + b"x" * 700)
    send(found, 1, Said("t2", 0, "fine"))
    assert found.answers()["t1"].problem is not None
    assert found.answers()["t2"].stdout == b"fine"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "[1,2,3,4,5]", '["t1",true,"","",null]', '["t1",0,"",null,null]', "[" * 5000],
)
def test_what_is_no_answer_is_told_as_such(text: str) -> None:
    found = gathered(most_chars=100_000)
    found.take_stdout(f"0: slurm_io.{text}".encode())
    assert found.answers()["t1"].problem == "its answer cannot be read"


@given(st.binary())
def test_other_lines_are_left_out(line: bytes) -> None:
    found = gathered()
    found.take_stdout(line)
    found.take_stdout(b"7: " + b"slurm_io." + json.dumps(["t1", 0, "", "", None]).encode())
    found.take_stderr(line.decode("latin-1"))
    assert found.answers() == {}


def test_a_problems_text_is_one_printable_line() -> None:
    found = gathered()
    send(found, 0, Said("t1", None, problem="a\nb\x1b[31m" + "x" * 900))
    problem = found.answers()["t1"].problem
    assert problem is not None and problem.isprintable() and len(problem) <= 300


def test_a_node_that_srun_cannot_start_on_is_told_by_name() -> None:
    found = gathered()
    found.take_stderr(
        "srun: error: Task launch for StepId=7.0 failed on node t3: Communication failure"
    )
    assert "slurmd does not answer" in str(found.answers()["t3"].problem)


def test_what_a_task_prints_on_stderr_is_not_taken_for_sruns_own_words() -> None:
    """Its lines come on srun's stderr too, behind a label: they move nobody's answer."""
    found = gathered()
    found.take_stderr("0: launching StepId=5.0 on host t2, 1 tasks: 0")
    found.take_stderr("0: srun: launching StepId=5.0 on host t1, 1 tasks: 1")
    found.take_stderr("0: srun: error: Task launch for StepId=5.0 failed on node t3: gone")
    send(found, 0, Said("t2", 0, "forged"))
    send(found, 1, Said("t2", 0, "true"))
    answers = found.answers()
    assert answers["t2"].stdout == b"true"
    assert "answers as 't2'" in str(answers["t1"].problem)
    assert "t3" not in answers
