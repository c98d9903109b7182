"""The format with a clock: stacks from their changes, torn ones counted, cuts survived."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from slurm_io.stacktext.chrometrace import parse_chrometrace
from slurm_io.stacktext.model import MOST_FRAMES
from tests.stacktext.samples import sample

LOADER = "loader.chrometrace.json"


def event(phase: str, name: str, ts: int, tid: int = 1, line: int = 1) -> dict[str, Any]:
    return {
        "ph": phase,
        "name": name,
        "ts": ts,
        "pid": 9,
        "tid": tid,
        "cat": "py-spy",
        "args": {"filename": "a.py", "line": line},
    }


def stacks(*events: dict[str, Any]) -> list[tuple[int, int, list[str]]]:
    trace = parse_chrometrace(json.dumps(events))
    return [(s.start_us, s.end_us, [f.name for f in s.frames]) for s in trace.stretches]


def test_a_recorded_window_covers_its_time_for_each_thread() -> None:
    trace = parse_chrometrace(sample(LOADER))
    assert (trace.torn, trace.damaged_events) == (0, 0)
    by_thread: dict[int, list[tuple[int, int]]] = {}
    for one in trace.stretches:
        by_thread.setdefault(one.tid, []).append((one.start_us, one.end_us))
    assert len(by_thread) == 3
    for spans in by_thread.values():
        assert all(end == start for (_, end), (start, _) in pairwise(spans))
        assert spans[-1][1] == trace.end_us == 7066252
    main = [one for one in trace.stretches if one.frames[-1].name == "<module>"]
    assert {one.frames[0].short_name for one in main} == {"main", "select", "_recv"}
    waits = sum(one.end_us - one.start_us for one in main if one.frames[0].short_name == "select")
    assert 0.3 < waits / (trace.end_us - main[0].start_us) < 0.9


def test_frames_begin_and_end() -> None:
    assert stacks(
        event("B", "<module>", 0),
        event("B", "f", 0),
        event("E", "f", 100),
        event("B", "g", 100),
        event("E", "g", 300),
        event("E", "<module>", 300),
    ) == [(0, 100, ["f", "<module>"]), (100, 300, ["g", "<module>"])]


def test_a_stack_without_a_root_is_torn() -> None:
    trace = parse_chrometrace(
        json.dumps(
            [
                event("B", "f", 0),
                event("E", "f", 50),
                event("B", "<module>", 50),
                event("E", "<module>", 90),
            ]
        )
    )
    assert [one.start_us for one in trace.stretches] == [50]
    assert (trace.torn, trace.torn_us) == (1, 50)


def test_rubbish_in_a_stack_tears_it() -> None:
    rubbish = event("B", "\x00\ufffd", 0)
    trace = parse_chrometrace(
        json.dumps([event("B", "<module>", 0), rubbish, event("E", "x", 40), event("E", "m", 90)])
    )
    assert [(one.start_us, one.end_us) for one in trace.stretches] == [(40, 90)]
    assert trace.torn_us == 40


def test_a_file_cut_anywhere_gives_what_stood_before() -> None:
    whole = sample(LOADER)
    full = parse_chrometrace(whole).stretches
    for cut in range(0, len(whole), 997):
        trace = parse_chrometrace(whole[:cut])
        assert trace.stretches == full[: len(trace.stretches)]
        assert trace.damaged_events <= 1


def test_time_that_runs_back_and_ends_without_a_begin_are_damage() -> None:
    trace = parse_chrometrace(
        json.dumps(
            [
                event("B", "<module>", 100),
                event("E", "<module>", 50),
                event("E", "<module>", 120),
                event("E", "<module>", 130),
            ]
        )
    )
    assert [(one.start_us, one.end_us) for one in trace.stretches] == [(100, 120)]
    assert trace.damaged_events == 2


def test_no_stack_grows_without_end() -> None:
    deep = [event("B", "<module>", 0), *(event("B", "f", 1) for _ in range(2 * MOST_FRAMES))]
    trace = parse_chrometrace(json.dumps([*deep, event("E", "f", 10)]))
    assert all(len(one.frames) <= MOST_FRAMES for one in trace.stretches)
    assert trace.damaged_events >= 1
