"""What ``scontrol listpids`` says of the job, where no control group tells (proctrack/linuxproc).

One child at a time asks and its answer is taken at a later refresh, so no tick waits for Slurm. An
answer is a minute old at worst: a process that was born after the question is none of those meant,
whatever its pid.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from slurm_io.host.probe import Probe

_PERIOD_S = 60.0
_FIRST_S = 2.0
_TIMEOUT_S = 5.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

Ask = Callable[[str, str, float], list[int]]


class ListedPids:
    """Call :meth:`refresh` at every look while there is no control group."""

    def __init__(self, job: str, node: str, ask: Ask) -> None:
        self._arguments = (job, node, _TIMEOUT_S)
        self._ask = ask
        self._probe: Probe | None = None
        self._stuck: Probe | None = None
        self._asked_ticks = 0.0
        self._next_s: float | None = None
        self._wait_s = _FIRST_S
        self._born_before_ticks = 0.0
        self.pids: frozenset[int] = frozenset()
        self.asked = 0
        self.failures = 0
        self.reason: str | None = None

    def refresh(self, now_s: float) -> None:
        """Take an answer that has come, ask when it is time."""
        if self._probe is not None:
            self._take(self._probe)
        if self._next_s is None:
            self._next_s = now_s + _FIRST_S
        if self._probe is None and now_s >= self._next_s and not self._is_stuck():
            self._wait_s = _PERIOD_S if self.pids else min(2 * self._wait_s, _PERIOD_S)
            self._next_s = now_s + self._wait_s
            self._start()

    def means(self, pid: int, starttime: int) -> bool:
        """Whether the last answer names exactly this process."""
        return pid in self.pids and starttime <= self._born_before_ticks

    def close(self) -> None:
        """Kill the child, if one is asking."""
        if self._probe is not None:
            self._probe.stop()
            self._probe = None

    def to_dict(self) -> dict[str, Any]:
        """As meta.json holds it."""
        return {"asked": self.asked, "failures": self.failures, "last_error": self.reason}

    def _is_stuck(self) -> bool:
        """A child that hangs where no signal reaches it (scontrol on a dead mount) stays alone."""
        if self._stuck is not None and not self._stuck.still_stuck():
            self._stuck = None
        return self._stuck is not None

    def _start(self) -> None:
        self.asked += 1
        self._asked_ticks = time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_PER_S
        try:
            self._probe = Probe([(self._ask, self._arguments)], _TIMEOUT_S + 1)
        except OSError as error:
            self._fail(f"no child: {error.strerror}")

    def _take(self, probe: Probe) -> None:
        probe.poll()
        if not probe.finished:
            return
        self._probe = None
        self._stuck = probe if probe.abandoned_pid is not None else None
        answer = probe.answers[0]
        if answer is None or answer.state != "ok" or not isinstance(answer.value, list):
            self._fail(answer.reason if answer is not None else "no answer")
            return
        self.pids = frozenset(pid for pid in answer.value if type(pid) is int)
        self._born_before_ticks = self._asked_ticks
        self.reason = None

    def _fail(self, reason: str) -> None:
        """The last good answer stands: it still names no process born later."""
        self.failures += 1
        self.reason = reason[:200]
