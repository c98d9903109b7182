"""When scontrol is asked and what is made of its answers."""

from __future__ import annotations

import time
from collections.abc import Callable

from slurm_io.sampler.listed_pids import ListedPids


def answers(job: str, node: str, timeout_s: float) -> list[int]:
    return [100, 101] if (job, node) == ("12", "node1") else []


def nothing(job: str, node: str, timeout_s: float) -> list[int]:
    return []


def fails(job: str, node: str, timeout_s: float) -> list[int]:
    raise OSError("no scontrol")


def lies(job: str, node: str, timeout_s: float) -> list[int]:
    return ["100", None, 7]  # type: ignore[list-item]


def asked_at(ask: Callable[[str, str, float], list[int]], seconds: int) -> tuple[ListedPids, list]:
    """The seconds in which a question was put, one look a second."""
    listed = ListedPids("12", "node1", ask)
    found = []
    for second in range(seconds):
        before = listed.asked
        listed.refresh(float(second))
        if listed.asked > before:
            found.append(second)
            settle(listed, float(second))
    return listed, found


def settle(listed: ListedPids, now_s: float) -> None:
    """Wait for the child's answer."""
    for _ in range(1000):
        if listed._probe is None:
            return
        time.sleep(0.005)
        listed.refresh(now_s)
    raise AssertionError("no answer")


def test_it_is_asked_soon_then_once_a_minute() -> None:
    listed, asked = asked_at(answers, 200)
    assert asked == [2, 6, 66, 126, 186]
    assert listed.pids == {100, 101}
    assert (listed.failures, listed.reason) == (0, None)


def test_without_an_answer_it_is_asked_ever_more_seldom() -> None:
    assert asked_at(nothing, 200)[1] == [2, 6, 14, 30, 62, 122, 182]


def test_a_failure_is_told_and_the_last_answer_stands() -> None:
    listed, _ = asked_at(answers, 3)
    listed._ask = fails
    for second in range(3, 8):
        listed.refresh(float(second))
    settle(listed, 8.0)
    assert listed.pids == {100, 101}
    assert listed.to_dict() == {"asked": 2, "failures": 1, "last_error": "no scontrol"}


def test_only_whole_numbers_are_pids() -> None:
    assert asked_at(lies, 3)[0].pids == {7}


def test_a_process_born_after_the_question_is_not_meant() -> None:
    listed, _ = asked_at(answers, 3)
    assert listed.means(100, 0) and not listed.means(99, 0)
    later = int((time.clock_gettime(time.CLOCK_BOOTTIME) + 10) * 100)
    assert not listed.means(100, later)


def test_no_child_is_left_when_it_is_closed() -> None:
    listed = ListedPids("12", "node1", lambda job, node, timeout_s: [time.sleep(60) or 1])
    listed.refresh(0.0)
    listed.refresh(2.0)
    probe = listed._probe
    assert probe is not None
    listed.close()
    assert probe.finished and not probe.still_stuck()
