"""Calls that may each hang, in one child as long as none of them does.

A child costs 2 to 3 ms of CPU, most calls far less, so they take turns in one. When a turn does not
end within `PATIENCE_S` (a quarter of the time there is, if that is less), or ends its child, the
turns behind it get a child each, all at once: one that hangs delays the others by that much and
hides none. A turn that was only slow may be followed by others in its child for a moment, whose
answers count for nothing.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence

from slurm_io.host.probe import LARGEST_ANSWER_BYTES, Answer, Call, Probe, poll_all
from slurm_io.records import dataclass

PATIENCE_S = 0.15
Turn = Sequence[Call]


@dataclass(frozen=True)
class Ended:
    """One turn that is over. `answers` has one place per call, None where it was not made any more;
    () where no child could take the turn. `left_pids`: processes of this turn that would not die.
    """

    number: int
    answers: tuple[Answer | None, ...]
    wall_s: float = 0.0
    left_pids: tuple[int, ...] = ()


class _Child:
    """One child and the numbers of the turns it still has to take, the one under way first."""

    def __init__(self, probe: Probe, numbers: list[int], patience_s: float) -> None:
        self.probe = probe
        self.numbers = numbers
        self.began_s = time.monotonic()  # the turn under way
        self.answered = 0  # of the probe's answers, in turns that are over
        self._patience_s = patience_s

    def patience_ends_s(self) -> float:
        return self.began_s + self._patience_s if len(self.numbers) > 1 else float("inf")

    def left_pids(self) -> tuple[int, ...]:
        own = self.probe.abandoned_pid
        return (*(() if own is None else (own,)), *self.probe.left_pids)


class Turns:
    """Each of `turns` is a sequence of calls that belong together: where one of them hangs, those
    behind it in the same turn are not made. All end `timeout_s` from now. There are at most
    `most` children at once, so that many that hang cannot fill a node with processes.

    Raises OSError when not even one child can be had.
    """

    def __init__(
        self,
        turns: Sequence[Turn],
        timeout_s: float,
        limit_bytes: int = LARGEST_ANSWER_BYTES,
        most: int | None = None,
    ) -> None:
        self._turns = [tuple(turn) for turn in turns]
        self._limit_bytes = limit_bytes
        self._most = most or len(self._turns)
        self._ends_s = time.monotonic() + timeout_s
        self._patience_s = min(PATIENCE_S, timeout_s / 4)
        self._waiting: list[int] = []
        self._lost: list[Ended] = []
        self._children: list[_Child] = []
        if self._turns:
            self._start(list(range(len(self._turns))))

    @property
    def probes(self) -> list[Probe]:
        """All that are at work, to be waited for and polled together with others."""
        return [child.probe for child in self._children]

    @property
    def is_over(self) -> bool:
        """Whether :meth:`settle` has given out all turns."""
        return not self._children and not self._waiting and not self._lost

    @property
    def wakes_s(self) -> float:
        """When to call :meth:`settle` at the latest (time.monotonic)."""
        if self._lost or not self._children:
            return 0.0
        return min(min(each.probe.deadline_s, each.patience_ends_s()) for each in self._children)

    def settle(self) -> list[Ended]:
        """Turns that are over since the last call, after the probes were polled. Does not wait."""
        ended = [each for child in list(self._children) for each in self._settle(child)]
        self._start_waiting()
        ended += self._lost
        self._lost = []
        return ended

    def kill(self) -> None:
        """Kill all children and do not wait for their ends."""
        for child in self._children:
            child.probe.kill()

    def stop(self) -> list[Ended]:
        """Take no more answers; the turns that are not over. Their answers say why."""
        self.kill()
        ended = []
        for child in self._children:
            child.probe.stop()
            ended += [self._ended(child)]
            ended += [Ended(number, ()) for number in child.numbers]
        ended += self._lost + [Ended(number, ()) for number in self._waiting]
        self._children, self._lost, self._waiting = [], [], []
        return ended

    def _settle(self, child: _Child) -> list[Ended]:
        ended = []
        while child.numbers and None not in self._answers(child):
            if len(child.numbers) == 1:
                child.probe.stop()  # it may have gone on to turns that others took over
            ended.append(self._ended(child))
        if child.numbers and child.probe.finished:
            if any(self._answers(child)):
                ended.append(self._ended(child))
            self._waiting += child.numbers
            child.numbers = []
        elif time.monotonic() >= child.patience_ends_s():
            self._waiting += child.numbers[1:]
            del child.numbers[1:]
        if not child.numbers:
            self._children.remove(child)
        return ended

    def _answers(self, child: _Child) -> tuple[Answer | None, ...]:
        """Of the turn under way."""
        return tuple(child.probe.answers[child.answered :][: len(self._turns[child.numbers[0]])])

    def _ended(self, child: _Child) -> Ended:
        """The turn under way is over; the next one is under way."""
        answers, wall_s = self._answers(child), time.monotonic() - child.began_s
        number = child.numbers.pop(0)
        child.answered += len(self._turns[number])
        child.began_s += wall_s
        # Who was left behind belongs to the turn with which the child ended.
        is_last = child.probe.finished and not (child.numbers and any(self._answers(child)))
        return Ended(number, answers, wall_s, child.left_pids() if is_last else ())

    def _start_waiting(self) -> None:
        while self._waiting and len(self._children) < self._most:
            number = self._waiting.pop(0)
            if time.monotonic() >= self._ends_s:
                self._lost.append(Ended(number, ()))
                continue
            try:
                self._start([number])
            except OSError as error:
                answer = Answer("error", reason=f"cannot start it: {error.strerror}")
                self._lost.append(Ended(number, (answer,)))

    def _start(self, numbers: list[int]) -> None:
        calls = [call for number in numbers for call in self._turns[number]]
        left_s = max(0.01, round(self._ends_s - time.monotonic(), 2))
        probe = Probe(calls, left_s, self._limit_bytes * len(numbers))
        self._children.append(_Child(probe, numbers, self._patience_s))


def take_turns(turns: Sequence[Turn], timeout_s: float) -> list[tuple[Answer | None, ...]]:
    """The answers of each turn, when all are over or the time is. Raises OSError."""
    answers: list[tuple[Answer | None, ...]] = [()] * len(turns)
    under_way = Turns(turns, timeout_s)
    while not under_way.is_over:
        poller = select.poll()
        for probe in under_way.probes:
            poller.register(probe.fileno(), select.POLLIN)
        # Rounded up: a poll that returns a hair too early would turn in circles.
        poller.poll(max(0.0, under_way.wakes_s - time.monotonic()) * 1000 + 1)
        poll_all(under_way.probes)
        for ended in under_way.settle():
            answers[ended.number] = ended.answers
    return answers
