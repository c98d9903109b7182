"""faulthandler, tracebacks and rich's boxes, as Python 3.8, 3.11 and 3.13 print them."""

from __future__ import annotations

import pytest

from slurm_io.stacktext.faulthandler import parse_faulthandler
from slurm_io.stacktext.tracebacks import parse_tracebacks
from slurm_io.stacktext.worker_deaths import find_worker_deaths
from tests.stacktext.samples import sample

VERSIONS = ["3.8", "3.11", "3.13"]
BUS_ERROR = (
    "DataLoader worker (pid 9) is killed by signal: Bus error. It is possible that dataloader's "
    "workers are out of shared memory. Please try to raise your shared memory limit."
)


@pytest.mark.parametrize("version", VERSIONS)
def test_faulthandler_names_the_current_thread(version: str) -> None:
    dump = parse_faulthandler(sample(f"faulthandler-py{version}.txt"))
    other, current = dump.threads
    assert (other.current, current.current) == (False, True)
    assert [frame.name for frame in current.frames] == ["inner", "<module>"]
    assert other.frames[0].name == "sleeper" and other.frames[-1].name == "_bootstrap"
    assert other.ident.startswith("0x0000")
    assert dump.dropped_frames == 0


@pytest.mark.parametrize("prefix", ["[rank3]: ", "3: ", ""])
def test_rank_prefixes_and_lines_in_between_do_no_harm(prefix: str) -> None:
    lines = sample("faulthandler-py3.11.txt").decode().splitlines()
    mixed = "\n".join(
        ["Fatal Python error: Aborted", "", *(prefix + line for line in lines), "core"]
    )
    assert parse_faulthandler(mixed) == parse_faulthandler("\n".join(lines))


def test_faulthandlers_question_marks_are_an_unknown_line() -> None:
    dump = parse_faulthandler(
        'Current thread 0x07f1 [worker] (most recent call first):\n  File "???", line ??? in f\n'
    )
    assert dump.threads[0].frames[0].line is None
    assert dump.threads[0].name == "worker"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("prefix", ["", "[rank0]: "])
def test_chained_tracebacks_are_two_innermost_first(version: str, prefix: str) -> None:
    text = sample(f"traceback-py{version}.txt").decode()
    cause, raised = parse_tracebacks("\n".join(prefix + line for line in text.splitlines()))
    assert [frame.name for frame in cause.frames] == ["deep", "deep", "deep", "main"]
    assert [frame.line for frame in cause.frames] == [3, 2, 2, 5]
    assert (cause.exception, cause.message) == ("ValueError", "it is broken: see line 3")
    assert [frame.name for frame in raised.frames] == ["main", "<module>"]
    assert raised.message.startswith("DataLoader worker (pid 77)")


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("with_locals", [0, 1])
def test_a_box_breaks_lines_and_words_and_hides_nothing(width: int, with_locals: int) -> None:
    (one,) = parse_tracebacks(sample(f"rich-{width}-{with_locals}.txt"))
    assert one.boxed and one.dropped_frames == 0
    assert [(frame.name, frame.line) for frame in one.frames] == [
        ("innermost_function_with_a_long_name", 7),
        ("outermost_function", 3),
        ("<module>", 7),
    ]
    assert one.frames[0].file == (
        "/home/user/projs/a_rather_long_folder_name_for_a_box/long_module_name_that_does_not_fit.py"
    )
    assert (one.exception, one.message) == ("ZeroDivisionError", "no 1")


@pytest.mark.parametrize(
    ("text", "pids", "signal", "code", "shm"),
    [
        (
            "DataLoader worker (pid 353773) is killed by signal: Aborted. ",
            (353773,),
            "SIGABRT",
            None,
            False,
        ),
        ("DataLoader worker (pid 9) is killed by signal: Killed. ", (9,), "SIGKILL", None, False),
        (
            BUS_ERROR,
            (9,),
            "SIGBUS",
            None,
            True,
        ),
        (
            "DataLoader worker (pid 9) exited unexpectedly with exit code 1. Details are lost",
            (9,),
            None,
            1,
            False,
        ),
        (
            "RuntimeError: DataLoader worker (pid(s) 4, 5) exited unexpectedly",
            (4, 5),
            None,
            None,
            False,
        ),
        (
            "DataLoader worker (pid 9) is killed by signal: Real-time signal 3. ",
            (9,),
            None,
            None,
            False,
        ),
    ],
)
def test_dead_workers_are_told_with_their_signal(
    text: str, pids: tuple[int, ...], signal: str | None, code: int | None, shm: bool
) -> None:
    (death,) = find_worker_deaths(f"noise\n[rank1]: {text}\n[rank2]: {text}\n")
    assert (death.pids, death.signal, death.exit_code, death.shared_memory) == (
        pids,
        signal,
        code,
        shm,
    )
