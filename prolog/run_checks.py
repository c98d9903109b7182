"""Run the planned checks in children, side by side where one takes its time, and be done in time.

Checks that run as the same user and are due at once take turns in one child, which is cheaper; when
one of them lingers, the others get a child each (:mod:`slurm_io.host.turns`).

A check may hang in the kernel for ever (a dead NFS server): its child is then named, left behind
and not waited for. Nothing that a check does or fails to do reaches the caller but a result.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Iterable

from slurm_io.host.probe import Answer, poll_all
from slurm_io.host.same_process import starttime_of
from slurm_io.host.turns import Ended, Turns
from slurm_io.model import CheckResult
from slurm_io.prolog.check_answers import (
    MAX_ANSWER_BYTES,
    cpu_s_of,
    left_pids_of,
    results_of,
    unknown,
)
from slurm_io.prolog.check_child import call_check
from slurm_io.prolog.check_plan import Plan, PlannedCheck
from slurm_io.prolog.checks.base import Check
from slurm_io.prolog.node_memory import STUCK_PER_CHECK, NodeMemory, stuck_key
from slurm_io.records import dataclass

MAX_IN_FLIGHT = 8  # of checks that run as one user


@dataclass(frozen=True)
class RanCheck:
    """One check's results. `cpu_s` None: its child did not live to say. `stuck`: (pid, starttime)
    of each process left in the kernel, remembered under `stuck_key`."""

    name: str
    check: Check
    results: tuple[CheckResult, ...]
    wall_s: float
    cpu_s: float | None
    timed_out: bool = False
    stuck: tuple[tuple[int, int], ...] = ()
    stuck_key: str = ""


@dataclass(frozen=True)
class _Round:
    """Checks that take turns, in this order."""

    planned: tuple[PlannedCheck, ...]
    turns: Turns


class CheckRun:
    """One round of checks. `ran` grows while :meth:`run` works; see :meth:`stop` for the rest."""

    def __init__(self, plan: Plan, memory: NodeMemory) -> None:
        self.ran: list[RanCheck] = []
        self._began_s = time.monotonic()
        self._waiting: list[PlannedCheck] = []
        self._running: list[_Round] = []
        for name, check, reason in plan.broken:
            self._file(name, check, unknown(name, check.kind, reason))
        for planned in sorted(plan.planned, key=lambda each: each.delay_s):
            stuck = memory.stuck.get(_stuck_key(planned), ())
            if len(stuck) >= STUCK_PER_CHECK:
                result = _still_stuck(planned, stuck)
                self._file(planned.name, planned.check, result, timed_out=True)
            else:
                self._waiting.append(planned)
        self._all = tuple(self._waiting)

    def run(self) -> None:
        """Work until every check has answered or its deadline is over."""
        try:
            while self._waiting or self._running:
                self._start_due()
                self._wait()
                self._collect()
        finally:
            self.stop("the prolog's time was over")

    def stop(self, reason: str) -> None:
        """What has not answered yet reads UNKNOWN; its children are killed."""
        for each in self._running:
            each.turns.kill()  # all of them first: they die side by side
        late = Answer("timed out", reason=reason)
        for each in self._running:
            for ended in each.turns.stop():
                answer = ended.answers[0] if ended.answers else None
                in_time = answer is not None and answer.state == "ok"
                self._finish(each.planned[ended.number], ended, (in_time and answer) or late)
        self._running, self._waiting = [], []
        # Also those that the alarm caught between two steps of this class.
        told = {each.name for each in self.ran}
        for planned in self._all:
            if planned.name not in told:
                self._file(planned.name, planned.check, _not_begun(planned, reason), timed_out=True)

    def _passed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _start_due(self) -> None:
        due: dict[tuple[str, float], list[PlannedCheck]] = {}
        for planned in list(self._waiting):
            passed_s = self._passed_s()
            if passed_s >= planned.deadline_s:
                self._waiting.remove(planned)
                reason = f"not begun within {planned.deadline_s:g} s"
                self._file(planned.name, planned.check, _not_begun(planned, reason), timed_out=True)
            elif passed_s >= planned.delay_s:
                self._waiting.remove(planned)
                due.setdefault((planned.check.identity, planned.deadline_s), []).append(planned)
        for (_, deadline_s), together in due.items():
            self._start(tuple(together), deadline_s)

    def _start(self, planned: tuple[PlannedCheck, ...], deadline_s: float) -> None:
        turns = [((call_check, (each, self._began_s)),) for each in planned]
        try:
            left_s = max(0.01, deadline_s - self._passed_s())
            self._running.append(
                _Round(planned, Turns(turns, left_s, MAX_ANSWER_BYTES, MAX_IN_FLIGHT))
            )
        except OSError as error:
            for each in planned:
                result = unknown(each.name, each.check.kind, f"cannot start it: {error.strerror}")
                self._file(each.name, each.check, result)

    def _wait(self) -> None:
        poller = select.poll()
        now_s = time.monotonic()
        ends_s = [each.turns.wakes_s - now_s for each in self._running]
        ends_s += [self._began_s + each.delay_s - now_s for each in self._waiting]
        for each in self._running:
            for probe in each.turns.probes:
                poller.register(probe.fileno(), select.POLLIN)
        # Rounded up: a poll that returns a hair too early would turn in circles.
        poller.poll(max(0.0, min(ends_s, default=0.0)) * 1000 + 1)

    def _collect(self) -> None:
        poll_all(probe for each in self._running for probe in each.turns.probes)
        for each in list(self._running):
            for ended in each.turns.settle():
                planned = each.planned[ended.number]
                not_begun = f"not begun within {planned.deadline_s:g} s"
                answer = (
                    ended.answers[0] if ended.answers else Answer("timed out", reason=not_begun)
                )
                self._finish(planned, ended, answer or Answer("error"))
            if each.turns.is_over:
                self._running.remove(each)

    def _finish(self, planned: PlannedCheck, ended: Ended, answer: Answer) -> None:
        left = (*ended.left_pids, *left_pids_of(answer))
        self.ran.append(
            RanCheck(
                name=planned.name,
                check=planned.check,
                results=results_of(planned.name, planned.check.kind, answer),
                wall_s=ended.wall_s,
                cpu_s=cpu_s_of(answer),
                timed_out=answer.state == "timed out",
                stuck=tuple(
                    (pid, starttime) for pid in left if (starttime := starttime_of(pid)) is not None
                ),
                stuck_key=_stuck_key(planned),
            )
        )

    def _file(self, name: str, check: Check, result: CheckResult, timed_out: bool = False) -> None:
        self.ran.append(RanCheck(name, check, (result,), 0.0, None, timed_out))


def with_left_behind(memory: NodeMemory, ran: Iterable[RanCheck]) -> NodeMemory:
    """What a node remembers, and who was left behind in this round."""
    for each in ran:
        if each.stuck:
            memory = memory.with_stuck(each.stuck_key, each.stuck)
    return memory


def _stuck_key(planned: PlannedCheck) -> str:
    return stuck_key(planned.name, planned.check.identity, planned.context.uid)


def _not_begun(planned: PlannedCheck, reason: str) -> CheckResult:
    return unknown(planned.name, planned.check.kind, reason)


def _still_stuck(planned: PlannedCheck, stuck: Iterable[tuple[int, int]]) -> CheckResult:
    return unknown(
        planned.name,
        planned.check.kind,
        f"not tried: children of earlier checks still hang: {', '.join(map(_where, stuck))}",
    )


def _where(child: tuple[int, int]) -> str:
    pid = child[0]
    with contextlib.suppress(OSError), open(f"/proc/{pid}/wchan") as file:
        return f"{pid} in {file.read() or '?'}"
    return str(pid)
