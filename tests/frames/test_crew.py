"""Dead workers in process lists and outputs, and native walks."""

from __future__ import annotations

import pytest

from slurm_io.frames.crew import judge_crew, judge_deaths, judge_native
from slurm_io.stacktext.gdb import parse_backtrace
from slurm_io.stacktext.ps import parse_ps
from slurm_io.stacktext.tracebacks import parse_tracebacks
from slurm_io.stacktext.worker_deaths import find_worker_deaths
from tests.frames.stacks import TABLE

HEAD = "PID PPID STAT COMMAND\n"


@pytest.mark.parametrize(
    ("lines", "rank", "workers", "dead"),
    [
        (
            "10 1 Ss bash\n11 10 Rl python t.py\n12 11 Z [python] <defunct>\n13 11 Sl python t\n",
            11,
            (12, 13),
            (12,),
        ),
        ("11 10 Rl python t.py\n12 11 Sl python t.py\n", 11, (12,), ()),
        ("11 10 Rl python t.py\n14 11 S cat\n20 2 Z [cat] <defunct>\n", 11, (), (20,)),
        ("10 1 S bash\n", None, (), ()),
    ],
)
def test_who_trains_who_loads_who_is_dead(
    lines: str, rank: int | None, workers: tuple[int, ...], dead: tuple[int, ...]
) -> None:
    crew = judge_crew(parse_ps(HEAD + lines)[0])
    assert (crew.rank, crew.workers, crew.dead) == (rank, workers, dead)
    assert crew.cause == ("worker_died" if set(dead) & set(workers) else None)


def test_a_death_without_a_traceback_says_nothing_of_the_rank() -> None:
    text = "DataLoader worker (pid 9) is killed by signal: Killed. "
    (one,) = judge_deaths(find_worker_deaths(text), parse_tracebacks(text), TABLE)
    assert one.death.signal == "SIGKILL" and one.before is None


def test_of_several_tracebacks_the_one_that_names_the_worker_counts() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/a/torch/serialization.py", line 3, in save\n'
        "ValueError: x\n"
        'Traceback (most recent call last):\n  File "/a/train.py", line 1, in <module>\n'
        '  File "/a/torch/utils/data/dataloader.py", line 7, in __next__\n'
        "RuntimeError: DataLoader worker (pid(s) 41) exited unexpectedly\n"
    )
    (one,) = judge_deaths(find_worker_deaths(text), parse_tracebacks(text), TABLE)
    assert one.before is not None and one.before.state == "data_wait"


@pytest.mark.parametrize(
    "function", ["nftw", "ftw_dir", "fts_read", "__GI___getdents64", "readdir64"]
)
def test_any_native_walk_is_metadata_and_import_only_where_something_says_so(function: str) -> None:
    frames = f'#0 {function} (dir=0x1 "/net/env") at x.c:1\n#1 0x00 in main () at y.c:3\n'
    (thread,) = parse_backtrace(frames)
    walk = judge_native(thread, TABLE)
    assert (walk.is_metadata, walk.path, walk.thread.state) == (True, "/net/env", "other")


def test_a_thread_that_walks_nothing_has_no_path() -> None:
    (thread,) = parse_backtrace('#0 pthread_cond_wait (file=0x1 "/a/b") at p.c:1\n')
    walk = judge_native(thread, TABLE)
    assert (walk.is_metadata, walk.path) == (False, None)
