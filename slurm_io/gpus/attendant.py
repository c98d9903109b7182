"""Keeps one GPU helper going: starts it, asks it, gives up on it when it hangs or dies.

A GPU that falls off its bus can put whoever asks it to sleep for ever. So a helper that is late is
killed and, if it does not die, left behind; the next one leaves out the GPU at which the last one
hung. After three have been left behind no other is started before one of them has died.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from slurm_io.gpus.model import Mark
from slurm_io.host.helper import End, Helper
from slurm_io.host.late_child import sleeping_in

_OPENING_LIMIT_S = 60.0  # without persistence mode a driver takes seconds for each GPU
_ANSWER_LIMIT_S = 10.0
_LEAST_LOOKS = 3
_AFTER_HANG_S = 5.0
_FIRST_RETRY_S = 60.0
_LONGEST_RETRY_S = 960.0
_MOST_LEFT_BEHIND = 3
_LONGEST_GOODBYE_S = 1.0


class Hang(NamedTuple):
    """A helper that did not come back: at which GPU (None: at no particular one), in which call."""

    helper: Helper
    gpu: int | None
    function: str
    sleeps_in: str
    cpu_s: float


class Attendant:
    """Call :meth:`exchange` at each tick; times are monotonic seconds.

    `start` forks a helper that leaves out the GPUs with the numbers given. `trouble` says why there
    are no answers at the moment, "" while there are.
    """

    def __init__(
        self, start: Callable[[frozenset[int]], Helper], function_name: Callable[[int], str]
    ) -> None:
        self._start_helper = start
        self._function_name = function_name
        self._helper: Helper | None = None
        self._asked_s: float | None = None
        self._limit_s = _OPENING_LIMIT_S
        self._looks = 0
        self._start_at_s = 0.0
        self._retry_s = _FIRST_RETRY_S
        self._cpu_s = 0.0
        self._is_over = False
        self.without: frozenset[int] = frozenset()
        self.hangs: list[Hang] = []
        self.starts = 0
        self.trouble = "the GPU driver has not answered yet"

    @property
    def helper_cpu_s(self) -> float:
        """CPU seconds of helpers that nobody has waited for yet, by their own word."""
        return self._cpu_s + sum(hang.cpu_s for hang in self.left_behind())

    def exchange(self, now_s: float) -> list[dict[str, Any]]:
        """Answers since the last time; the next question is put."""
        self.left_behind()  # those that died are waited for, which brings in their CPU time
        if self._helper is None:
            self._start(now_s)
            return []
        helper = self._helper
        answers = helper.take()
        for answer in answers:
            self._note(answer)
        if helper.end is not None:
            self._bury(helper.end, now_s)
        elif answers or self._asked_s is None:
            helper.ask()
            self._wait_from(now_s, _ANSWER_LIMIT_S)
        elif self._is_late(now_s):
            self._leave(helper, now_s)
        return answers

    def left_behind(self) -> list[Hang]:
        """Helpers that were killed and do not die."""
        return [hang for hang in self.hangs if not hang.helper.is_gone()]

    def close(self) -> None:
        """Kill what runs. Waits a second at most, so that its CPU time is known."""
        if self._helper is not None:
            self._helper.close()
            end_s = time.monotonic() + _LONGEST_GOODBYE_S
            while not self._helper.is_gone() and time.monotonic() < end_s:
                time.sleep(0.001)
        self.left_behind()
        self._helper = None
        self._cpu_s = 0.0
        self._is_over = True

    def _start(self, now_s: float) -> None:
        if self._is_over or now_s < self._start_at_s:
            return
        if len(self.left_behind()) >= _MOST_LEFT_BEHIND:
            return
        try:
            self._helper = self._start_helper(self.without)
        except OSError as error:
            self._retry_later(now_s, f"the GPU helper cannot be started: {error.strerror}")
            return
        self.starts += 1
        self._wait_from(now_s, _OPENING_LIMIT_S)

    def _wait_from(self, now_s: float, limit_s: float) -> None:
        self._asked_s, self._limit_s, self._looks = now_s, limit_s, 0

    def _is_late(self, now_s: float) -> bool:
        """Not at once after a pause: who was stopped together with us had no time to answer."""
        self._looks += 1
        is_over = self._asked_s is not None and now_s - self._asked_s > self._limit_s
        return is_over and self._looks >= _LEAST_LOOKS

    def _note(self, answer: dict[str, Any]) -> None:
        if "failed" in answer:
            self.trouble = str(answer["failed"])
        else:
            self.trouble = ""
            self._cpu_s = float(answer.get("cpu_s", self._cpu_s))

    def _bury(self, end: End, now_s: float) -> None:
        """The helper ended by itself: it said why, it was ended, or it crashed."""
        assert self._helper is not None
        where = self._where(self._helper)
        self._drop(self._helper)
        if end.by_signal == signal.SIGTERM:
            self._is_over = True
            self.trouble = "somebody ended the GPU helper: it is not started again for this job"
            return
        if end.by_signal is not None:
            self.trouble = f"the GPU helper died of signal {end.by_signal} in {where[1]}"
        elif not self.trouble:
            self.trouble = f"the GPU helper ended with code {end.code}"
        self._retry_later(now_s, self.trouble)

    def _leave(self, helper: Helper, now_s: float) -> None:
        gpu, function = self._where(helper)
        hang = Hang(helper, gpu, function, sleeping_in(helper.pid), self._cpu_s)
        self._drop(helper)
        self.hangs.append(hang)
        of_gpu = "" if gpu is None else f" of GPU {gpu}"
        trouble = f"no answer within {self._limit_s:g} s from {function}{of_gpu}"
        if gpu is None:
            self._retry_later(now_s, trouble)
        else:
            self.trouble = trouble
            self.without |= {gpu}
            self._start_at_s = now_s + _AFTER_HANG_S

    def _drop(self, helper: Helper) -> None:
        helper.close()
        helper.is_gone()
        self._helper, self._asked_s, self._cpu_s = None, None, 0.0

    def _retry_later(self, now_s: float, trouble: str) -> None:
        self.trouble = trouble
        self._start_at_s = now_s + self._retry_s
        self._retry_s = min(2 * self._retry_s, _LONGEST_RETRY_S)

    def _where(self, helper: Helper) -> tuple[int | None, str]:
        gpu, function = Mark.read(helper.shared)
        return gpu, self._function_name(function)
