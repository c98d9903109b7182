"""Recorded windows turned into seconds: every look counted once, on the caller's grid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.frames.windows import fold, judge_window
from slurm_io.stacktext.chrometrace import parse_chrometrace
from slurm_io.stacktext.model import Frame, Trace
from tests.frames.stacks import TABLE, stack

SECOND_NS = 1_000_000_000
LOADER = Path(__file__).parents[1] / "stacktext" / "data" / "loader.chrometrace.json"
WAIT = ("__next__", "torch/utils/data/dataloader.py")
STEP = ("main", "train.py")


def trace(*spans: tuple[int, int, tuple[str, str]], root: str = "<module>") -> Trace:
    """One thread whose leaf is as told from .. to (milliseconds)."""
    events: list[dict[str, Any]] = []

    def event(phase: str, name: str, file: str, ms: int) -> None:
        events.append(
            {"ph": phase, "name": name, "ts": ms * 1000, "pid": 9, "tid": 1}
            | {"args": {"filename": file, "line": 1}}
        )

    event("B", root, "train.py", spans[0][0])
    for begin, end, (name, file) in spans:
        event("B", name, file, begin)
        event("E", name, file, end)
    event("E", root, "train.py", spans[-1][1])
    return parse_chrometrace(json.dumps(events))


def test_looks_are_put_to_the_second_of_the_grid_they_lie_in() -> None:
    """The recorder began 0.4 s after a border; 2 s of waiting, then 1 s of training."""
    grid_ns = 7 * SECOND_NS
    window = judge_window(
        trace((0, 2000, WAIT), (2000, 3000, STEP)), TABLE, 10, grid_ns + 400_000_000, grid_ns
    )
    assert [(row.end_ns // SECOND_NS, row.state, row.samples) for row in window.rows] == [
        (8, "data_wait", 6),
        (9, "data_wait", 10),
        (10, "compute", 6),
        (10, "data_wait", 4),
        (11, "compute", 4),
    ]
    assert (window.instants, window.torn) == (30, 0)
    assert {row.certain for row in window.rows if row.state == "data_wait"} == {4, 6, 10}
    assert {row.certain for row in window.rows if row.state == "compute"} == {0}


def test_a_grid_that_lies_ahead_of_the_window_is_the_same_grid() -> None:
    one = trace((0, 1000, WAIT))
    behind = judge_window(one, TABLE, 10, 5 * SECOND_NS, 2 * SECOND_NS)
    assert behind == judge_window(one, TABLE, 10, 5 * SECOND_NS, 40 * SECOND_NS)


def test_a_window_without_a_main_thread_has_looks_and_no_state() -> None:
    window = judge_window(trace((0, 1000, STEP), root="_bootstrap"), TABLE, 10, 0, 0)
    assert (window.rows, window.instants, window.torn) == ((), 10, 10)


def test_a_recorded_window_is_shares_that_add_up() -> None:
    window = judge_window(
        parse_chrometrace(LOADER.read_bytes()), TABLE, 10, 3 * SECOND_NS, 3 * SECOND_NS
    )
    by_state = {
        s: sum(r.samples for r in window.rows if r.state == s) for s in ("data_wait", "compute")
    }
    assert sum(by_state.values()) == window.instants - window.torn >= 68
    assert window.torn == 0
    # By the trace itself: the time below __next__.
    stretches = parse_chrometrace(LOADER.read_bytes()).stretches
    main = [one for one in stretches if one.frames[-1].name == "<module>"]
    waited = [one for one in main if any(f.short_name == "__next__" for f in one.frames)]
    share = sum(o.end_us - o.start_us for o in waited) / sum(o.end_us - o.start_us for o in main)
    assert by_state["data_wait"] / window.instants == pytest.approx(share, abs=0.03)


def test_an_empty_recording_is_an_empty_window() -> None:
    window = judge_window(Trace(), TABLE, 10, 0, 0)
    assert (window.rows, window.instants, window.torn) == ((), 0, 0)


@given(
    st.integers(1, 20),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.lists(st.integers(1, 900), min_size=1, max_size=8),
)
def test_every_look_is_in_one_row(
    rate: int, start_ns: int, grid_ns: int, lengths: list[int]
) -> None:
    at, spans = 0, []
    for index, length in enumerate(lengths):
        spans.append((at, at + length, (WAIT, STEP)[index % 2]))
        at += length
    window = judge_window(trace(*spans), TABLE, rate, start_ns, grid_ns)
    assert sum(row.samples for row in window.rows) + window.torn == window.instants
    assert abs(window.instants - at * rate / 1000) <= 1
    for row in window.rows:
        assert (row.end_ns - grid_ns) % SECOND_NS == 0
        assert start_ns < row.end_ns <= start_ns + at * 1_000_000 + SECOND_NS


def test_folded_stacks_run_from_the_root_and_keep_the_leaf_when_long() -> None:
    short = fold(stack("f (/opt/lib/python3.11/site-packages/a/b.py:3)", "<module> (train.py:1)"))
    assert short == "<module> (train.py:1);f (a/b.py:3)"
    long = fold((Frame("leaf", "a.py", 1), *(Frame("x" * 90, "b.py", n) for n in range(60))))
    assert len(long) <= 1500 and long.startswith("…") and long.endswith(";leaf (a.py:1)")
