"""Calls take turns in one child, and one that hangs costs no other its answer."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.host import turns
from slurm_io.host.probe import Call, poll_all
from slurm_io.host.turns import Turns, take_turns
from tests.labs.freezer import freezer_group, sleep_in_state_d

PID: Call = (os.getpid, ())
HANG: Call = (time.sleep, (60,))
DIE: Call = (os.kill, (0, signal.SIGKILL))
FAIL: Call = (os.stat, ("/nonexistent",))


def nap(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def states(answers: tuple[Any, ...]) -> list[str | None]:
    return [each.state if each is not None else None for each in answers]


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_turns_that_end_share_one_child() -> None:
    found = take_turns([(PID, PID), (PID,), (FAIL, PID), (PID,)], 10)
    assert [states(each) for each in found] == [["ok", "ok"], ["ok"], ["error", "ok"], ["ok"]]
    pids = {each.value for turn in found for each in turn if each is not None} - {None}
    assert len(pids) == 1
    assert pids != {os.getpid()}


def test_no_turns_need_no_child() -> None:
    assert take_turns([], 10) == []
    assert take_turns([()], 10) == [()]


@pytest.mark.parametrize("position", [0, 1, 2])
def test_one_that_hangs_delays_the_others_by_the_patience_only(position: int) -> None:
    wanted: list[tuple[Call, ...]] = [(PID,), (PID,)]
    wanted.insert(position, (HANG, PID))
    under_way, began_s = Turns(wanted, 5), time.monotonic()
    ended: dict[int, Any] = {}
    while len(ended) < 2:
        poll_all(under_way.probes)
        ended |= {each.number: each for each in under_way.settle()}
        time.sleep(0.005)
    assert time.monotonic() - began_s < 2.5
    assert position not in ended
    assert {states(each.answers)[0] for each in ended.values()} == {"ok"}
    (left,) = under_way.stop()
    assert (left.number, states(left.answers)) == (position, ["error", None])


def test_what_hangs_reads_timed_out_and_its_own_further_calls_are_not_made() -> None:
    found = take_turns([(PID, HANG, PID), (PID,)], 0.4)
    assert [states(each) for each in found] == [["ok", "timed out", None], ["ok"]]
    assert "it slept in" in (found[0][1].reason if found[0][1] else "")


def test_many_that_hang_take_no_longer_than_one() -> None:
    began_s = time.monotonic()
    found = take_turns([(HANG,)] * 12 + [(PID,)], 3)
    assert time.monotonic() - began_s < 12
    assert [states(each)[0] for each in found] == ["timed out"] * 12 + ["ok"]


def test_a_child_that_dies_takes_only_its_own_turn_along() -> None:
    found = take_turns([(PID,), (PID, DIE, PID), (PID,), (DIE,), (PID,)], 10)
    assert [states(each) for each in found] == [
        ["ok"], ["ok", "error", None], ["ok"], ["error"], ["ok"],
    ]  # fmt: skip


def test_a_slow_turn_still_answers_and_nobody_answers_twice() -> None:
    under_way = Turns([((nap, (0.5,)),), (PID,), (PID,)], 10)
    numbers = []
    while not under_way.is_over:
        time.sleep(0.01)
        poll_all(under_way.probes)
        numbers += [each.number for each in under_way.settle()]
    assert sorted(numbers) == [0, 1, 2]
    assert numbers[-1] == 0


def test_there_are_never_more_children_than_allowed() -> None:
    under_way = Turns([(HANG,)] * 6, 0.6, most=2)
    ended, at_once = [], 0
    while not under_way.is_over:
        time.sleep(0.01)
        poll_all(under_way.probes)
        ended += under_way.settle()
        at_once = max(at_once, len(under_way.probes))
    assert at_once == 2
    assert sorted(each.number for each in ended) == list(range(6))
    assert sorted(len(each.answers) for each in ended) == [0, 0, 0, 0, 1, 1]


def test_stopped_ones_are_told_each_once_and_nothing_is_left() -> None:
    before, open_before = children(), descriptors()
    under_way = Turns([(PID,), (HANG,), (PID,)], 10)
    assert sorted(each.number for each in under_way.stop()) == [0, 1, 2]
    assert under_way.is_over
    take_turns([(HANG,), (PID,), (DIE,)], 0.3)
    assert children() == before
    assert descriptors() == open_before


def test_without_a_process_for_those_behind_they_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way = Turns([(HANG,), (PID,)], 0.5)

    def no_more(*_given: Any) -> Any:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(turns, "Probe", no_more)
    ended = []
    while not under_way.is_over:
        time.sleep(0.01)
        poll_all(under_way.probes)
        ended += under_way.settle()
    told = {each.number: each.answers[0] for each in ended}
    assert told[1] is not None
    assert told[1].reason == "cannot start it: Resource temporarily unavailable"
    assert told[0] is not None
    assert told[0].state == "timed out"


@pytest.fixture
def freezer() -> Iterator[Path]:
    with freezer_group() as folder:
        yield folder


def test_who_sleeps_in_the_kernel_is_named_with_its_own_turn(freezer: Path) -> None:
    under_way = Turns([(PID,), ((sleep_in_state_d, (freezer,)),), (PID,)], 0.6)
    ended = []
    while not under_way.is_over:
        time.sleep(0.01)
        poll_all(under_way.probes)
        ended += under_way.settle()
    assert {each.number: bool(each.left_pids) for each in ended} == {0: False, 1: True, 2: False}


KINDS = {"ok": PID, "error": FAIL, "dies": DIE, "hangs": HANG, "slow": (nap, (0.25,))}
WANTED = {"ok": "ok", "slow": "ok", "error": "error", "dies": "error", "hangs": "timed out"}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(sorted(KINDS)), max_size=6))
def test_every_turn_ends_once_as_it_would_alone(kinds: list[str]) -> None:
    found = take_turns([(KINDS[kind],) for kind in kinds], 1.5)
    assert [states(each) for each in found] == [[WANTED[kind]] for kind in kinds]
