"""Run the planned checks side by side, each in a child of its own, and be done in time.

A check may hang in the kernel for ever (a dead NFS server): its child is then named, left behind
and not waited for. Nothing that a check does or fails to do reaches the caller but a result.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_io.host.probe import Answer, Probe
from slurm_io.host.same_process import starttime_of
from slurm_io.model import CheckResult
from slurm_io.prolog.check_answers import cpu_s_of, results_of, unknown
from slurm_io.prolog.check_child import call_check
from slurm_io.prolog.check_plan import Plan, PlannedCheck
from slurm_io.prolog.checks.base import Check
from slurm_io.prolog.node_memory import STUCK_PER_CHECK, NodeMemory

MAX_IN_FLIGHT = 8


@dataclass(frozen=True)
class RanCheck:
    """One check's results. `cpu_s` None: its child did not live to say. `stuck`: (pid, starttime)
    of a child left in the kernel."""

    name: str
    check: Check
    results: tuple[CheckResult, ...]
    wall_s: float
    cpu_s: float | None
    timed_out: bool = False
    stuck: tuple[int, int] | None = None


@dataclass
class _Running:
    planned: PlannedCheck
    probe: Probe
    began_s: float


class CheckRun:
    """One round of checks. `ran` grows while :meth:`run` works; see :meth:`stop` for the rest."""

    def __init__(self, plan: Plan, memory: NodeMemory) -> None:
        self.ran: list[RanCheck] = []
        self._began_s = time.monotonic()
        self._waiting: list[PlannedCheck] = []
        self._running: list[_Running] = []
        for name, check, reason in plan.broken:
            self._file(name, check, unknown(name, check.kind, reason))
        for planned in sorted(plan.planned, key=lambda each: each.delay_s):
            stuck = memory.stuck.get(planned.name, ())
            if len(stuck) >= STUCK_PER_CHECK:
                self._file(planned.name, planned.check, _still_stuck(planned, stuck))
            else:
                self._waiting.append(planned)

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
        for running in self._running:
            running.probe.stop()
            self._finish(running, Answer("timed out", reason=reason))
        for planned in self._waiting:
            self._file(planned.name, planned.check, _not_begun(planned, reason), timed_out=True)
        self._running, self._waiting = [], []

    def _passed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _start_due(self) -> None:
        for planned in list(self._waiting):
            passed_s = self._passed_s()
            if passed_s >= planned.deadline_s:
                self._waiting.remove(planned)
                reason = f"not begun within {planned.deadline_s:g} s"
                self._file(planned.name, planned.check, _not_begun(planned, reason), timed_out=True)
            elif passed_s >= planned.delay_s and len(self._running) < MAX_IN_FLIGHT:
                self._waiting.remove(planned)
                self._start(planned, passed_s)

    def _start(self, planned: PlannedCheck, passed_s: float) -> None:
        call = (call_check, (planned.check, planned.context_with_budget(passed_s)))
        try:
            probe = Probe([call], max(0.01, round(planned.deadline_s - passed_s, 2)))
        except OSError as error:
            result = unknown(planned.name, planned.check.kind, f"cannot start it: {error.strerror}")
            self._file(planned.name, planned.check, result)
            return
        self._running.append(_Running(planned, probe, time.monotonic()))

    def _wait(self) -> None:
        poller = select.poll()
        now_s = time.monotonic()
        ends_s = [running.probe.deadline_s - now_s for running in self._running]
        if len(self._running) < MAX_IN_FLIGHT:
            ends_s += [self._began_s + each.delay_s - now_s for each in self._waiting]
        for running in self._running:
            poller.register(running.probe.fileno(), select.POLLIN)
        # Rounded up: a poll that returns a hair too early would turn in circles.
        poller.poll(max(0.0, min(ends_s, default=0.0)) * 1000 + 1)

    def _collect(self) -> None:
        for running in list(self._running):
            running.probe.poll()
            if running.probe.finished:
                self._running.remove(running)
                self._finish(running, running.probe.answers[0] or Answer("error"))

    def _finish(self, running: _Running, answer: Answer) -> None:
        planned, pid = running.planned, running.probe.abandoned_pid
        starttime = starttime_of(pid) if pid is not None else None
        self.ran.append(
            RanCheck(
                name=planned.name,
                check=planned.check,
                results=results_of(planned.name, planned.check.kind, answer),
                wall_s=time.monotonic() - running.began_s,
                cpu_s=cpu_s_of(answer),
                timed_out=answer.state == "timed out",
                stuck=(pid, starttime) if pid is not None and starttime is not None else None,
            )
        )

    def _file(self, name: str, check: Check, result: CheckResult, timed_out: bool = False) -> None:
        self.ran.append(RanCheck(name, check, (result,), 0.0, None, timed_out))


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
