"""Helpers that answer, fail, crash, are ended and hang: what becomes of them and who follows."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_io.gpus.attendant import Attendant
from slurm_io.gpus.model import Mark
from slurm_io.host.helper import Channel, Helper
from tests.labs.freezer import freezer_group, sleep_in_state_d, thaw


class Scene:
    """`lives` are what the helpers do, one after the other; the last is lived again and again."""

    def __init__(self, *lives: Callable[[Channel], None]) -> None:
        self.lives = list(lives)
        self.without: list[frozenset[int]] = []
        self.attendant = Attendant(self._start, "function {}".format)
        self.now_s = 1000.0

    def _start(self, without: frozenset[int]) -> Helper:
        self.without.append(without)
        life = self.lives.pop(0) if len(self.lives) > 1 else self.lives[0]
        return Helper(life, "scene")

    def step(self, seconds: float = 1.0) -> list[dict[str, Any]]:
        """The next tick comes `seconds` later by the attendant's clock."""
        self.now_s += seconds
        return self.attendant.exchange(self.now_s)

    def hang_for(self, seconds: float) -> None:
        """Ticks until so much time has passed."""
        for _ in range(4):
            self.step(seconds / 4)

    def until(self, is_so: Callable[[], Any], seconds: float = 0.0) -> list[dict[str, Any]]:
        answers = []
        end_s = time.monotonic() + 20
        while not is_so():
            assert time.monotonic() < end_s
            answers += self.step(seconds)
            time.sleep(0.002)
        return answers


@pytest.fixture
def scene() -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(*lives: Callable[[Channel], None]) -> Scene:
        made.append(Scene(*lives))
        return made[-1]

    yield make
    for each in made:
        each.attendant.close()
        end_s = time.monotonic() + 20
        while each.attendant.left_behind() and time.monotonic() < end_s:
            time.sleep(0.005)


def answer(channel: Channel) -> None:
    channel.answer({"opened": {}})
    for number, _ in enumerate(channel.questions()):
        channel.answer({"number": number, "cpu_s": 0.5 + number})


def fail(channel: Channel) -> None:
    channel.answer({"failed": "the NVIDIA driver is not loaded"})


def crash(channel: Channel) -> None:
    channel.answer({"opened": {}})
    for _ in channel.questions():
        channel.shared[1] = 9
        os.kill(os.getpid(), signal.SIGSEGV)


def hang_at(gpu: int | None) -> Callable[[Channel], None]:
    def life(channel: Channel) -> None:
        mark = Mark(channel.shared)
        channel.answer({"opened": {}})
        for _ in channel.questions():
            mark.set(gpu)
            channel.shared[1] = 4
            time.sleep(600)

    return life


def test_one_helper_answers_tick_after_tick(scene: Callable[..., Scene]) -> None:
    one = scene(answer)
    answers: list[dict[str, Any]] = []
    while len(answers) < 4:
        answers += one.step(0.0)
        time.sleep(0.002)
    assert answers[0] == {"opened": {}}
    assert [each["number"] for each in answers[1:]] == list(range(len(answers) - 1))
    assert one.attendant.starts == 1
    assert one.attendant.trouble == ""
    assert one.attendant.helper_cpu_s >= 0.5


def test_before_the_first_answer_it_is_said(scene: Callable[..., Scene]) -> None:
    one = scene(lambda channel: time.sleep(600))
    one.step()
    assert one.attendant.trouble == "the GPU driver has not answered yet"


def test_why_it_failed_is_told_and_it_is_tried_again_less_and_less_often(
    scene: Callable[..., Scene],
) -> None:
    one = scene(fail)
    waits = []
    for _ in range(6):
        one.until(lambda: one.attendant._helper is None)
        starts, began_s = one.attendant.starts, one.now_s
        one.until(lambda starts=starts: one.attendant.starts > starts, seconds=5.0)
        waits.append(one.now_s - began_s)
    assert one.attendant.trouble == "the NVIDIA driver is not loaded"
    assert waits[1] >= 60 and waits[2] >= 120 and 480 <= waits[4] <= 700


def test_a_crash_names_the_call(scene: Callable[..., Scene]) -> None:
    one = scene(crash)
    one.until(lambda: one.attendant.trouble.startswith("the GPU helper died"))
    assert one.attendant.trouble == "the GPU helper died of signal 11 in function 9"
    assert one.attendant.helper_cpu_s == 0.0


def test_whoever_ends_it_is_obeyed_for_the_rest_of_the_job(scene: Callable[..., Scene]) -> None:
    one = scene(answer)
    one.until(lambda: one.attendant.trouble == "")
    assert one.attendant._helper is not None
    os.kill(one.attendant._helper.pid, signal.SIGTERM)
    one.until(lambda: one.attendant.trouble != "")
    assert "somebody ended the GPU helper" in one.attendant.trouble
    for _ in range(100):
        one.step(60)
    assert one.attendant.starts == 1


def test_one_that_hangs_at_a_gpu_is_killed_and_the_next_leaves_it_out(
    scene: Callable[..., Scene],
) -> None:
    one = scene(hang_at(3), answer)
    one.until(lambda: one.attendant._helper and one.attendant._helper.shared[1] == 4)
    one.step(5)
    one.step(4)
    assert one.attendant.hangs == []
    one.step(2)
    (hang,) = one.attendant.hangs
    assert (hang.gpu, hang.function) == (3, "function 4")
    assert one.attendant.trouble == "no answer within 10 s from function 4 of GPU 3"
    one.until(lambda: one.attendant.starts == 2, seconds=1.0)
    assert one.without == [frozenset(), frozenset({3})]
    one.until(lambda: one.attendant.trouble == "")
    one.until(lambda: not one.attendant.left_behind())  # it could be killed, so it is gone


def test_one_that_hangs_in_the_driver_is_not_followed_at_once(
    scene: Callable[..., Scene],
) -> None:
    one = scene(hang_at(None), answer)
    one.until(lambda: one.attendant._helper and one.attendant._helper.shared[1] == 4)
    one.hang_for(11)
    assert one.attendant.hangs[0].gpu is None
    one.step(30)
    assert one.attendant.starts == 1
    one.until(lambda: one.attendant.starts == 2, seconds=5.0)
    assert one.without[-1] == frozenset()


def test_opening_may_take_its_time(scene: Callable[..., Scene]) -> None:
    one = scene(lambda channel: time.sleep(600))
    one.step()
    for _ in range(5):
        one.step(11)
    assert one.attendant.hangs == []
    one.step(11)
    assert [hang.gpu for hang in one.attendant.hangs] == [None]
    assert one.attendant.without == frozenset()


def test_a_pause_of_everything_is_no_hang(scene: Callable[..., Scene]) -> None:
    one = scene(answer)
    one.until(lambda: one.attendant.trouble == "")
    helper = one.attendant._helper
    assert helper is not None
    one.step(3600)  # stopped together with its helper, which had no time to answer
    assert one.attendant.hangs == []
    assert select.select([helper._answers], [], [], 20)[0]
    assert one.step() != []
    assert one.attendant.hangs == []


def test_an_exchange_never_waits(scene: Callable[..., Scene]) -> None:
    one = scene(hang_at(1))
    longest_s = 0.0
    for _ in range(200):
        began_s = time.monotonic()
        one.step(1.0)
        longest_s = max(longest_s, time.monotonic() - began_s)
    assert one.attendant.hangs
    assert longest_s < 1.0  # of hundreds of seconds spent hanging


@pytest.mark.root
def test_no_more_than_three_are_left_behind(scene: Callable[..., Scene]) -> None:
    with freezer_group() as group:

        def freeze(channel: Channel) -> None:
            Mark(channel.shared).set(1)
            sleep_in_state_d(group)

        one = scene(freeze, freeze, freeze, answer)
        for number in (1, 2, 3):
            one.until(lambda: _is_frozen(one, group))
            one.hang_for(61)
            assert len(one.attendant.left_behind()) == one.attendant.starts == number
            one.step(6)
        for _ in range(50):
            one.step(10)
        assert one.attendant.starts == 3
        assert len(one.attendant.left_behind()) == 3
        thaw(group)
        one.until(lambda: one.attendant.trouble == "")
        one.until(lambda: not one.attendant.left_behind())  # the first to die lets the next start
        assert one.attendant.starts == 4


def _is_frozen(one: Scene, group: Path) -> bool:
    helper = one.attendant._helper
    if helper is None or str(helper.pid) not in (group / "cgroup.procs").read_text().split():
        return False
    return Path(f"/proc/{helper.pid}/stat").read_text().rpartition(")")[2].split()[0] == "D"
