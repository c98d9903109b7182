"""What ranks and loader workers execute, seen from outside by py-spy, without their cooperation.

Source
    ``py-spy record --nonblocking --idle -f chrometrace`` on one process at a time, in windows of
    5 s at 10 looks a second on average: ranks in turn, every third window a loader worker. py-spy
    draws the time to its next look by chance (exponential), so no training keeps time with it; a
    stack counts for the time until another one is seen, and a few hundred looks leave some points
    to chance. Never in blocking mode: nothing is stopped. In Slurm the window runs as the job's
    user and in the job's control groups, never as root (unless ``stacks_as_root``); what it says is
    checked and not trusted.

Columns
    Table ``stacks``: a row for each second, state and sub-state of a window. Windows of a process
    lie far apart: between them nothing is known. Samples whose stack was torn while it was read are
    counted in meta.json and have no row.

Needs
    profile=full, py-spy 0.4 or later beside this Python or among the system's tools, Python 3.8 to
    3.14 in the job, and a kernel that lets a process look at others of its user (Yama mode 0).

Cost
    0.06 s of CPU a window of a process with one Python thread, 0.12 s with 4, 3 s with 150 of 25
    frames each: looks are made rarer where one costs more than 3 ms, down to one a second. A window
    starts only when ``stacks_share`` (0.7 % of one core) has paid for the last one. A py-spy needs
    9 MB while it runs, the sampler itself grows by 2 MB. Twice the looks make a window dearer by
    half: shares stray less, but fewer windows miss more of what comes in episodes.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections import Counter
from typing import TYPE_CHECKING

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.host.read import read_optional_line

if TYPE_CHECKING:
    from slurm_io.collectors.stacks.targets import Target
    from slurm_io.host.probe import Probe

ENDED = "the process has ended"  # while it was looked at: no refusal
WINDOW_S = 5
FIRST_WINDOW_S = 1  # until it is known what a look costs: py-spy reads every Python thread
RATE_HZ = 10
_MOST_CPU_S = 0.15  # of a window
_FIRST_AFTER_S = 2.0  # a rank that has just begun imports
_PATIENCE_S = 60.0  # for a process that refused; doubled each time
_LONGEST_PATIENCE_S = 3600.0
_DEAREST_GUESS_S = 0.1  # what the first window is taken to cost
_SECOND_NS = 1_000_000_000
_MOST_REASONS = 20

_Who = tuple[int, int]


@COLLECTORS.register("stacks")
class StacksCollector:
    """Called every second: takes a finished window's rows, starts the next when it is paid for."""

    name = "stacks"
    table = "stacks"
    period_s = 1.0

    def __init__(self) -> None:
        self._is_open = False
        self._window: _Window | None = None
        self._stuck: _Window | None = None
        self._next_ns: int | None = None
        self._refusing: dict[_Who, tuple[int, float]] = {}
        self._refused: Counter[str] = Counter()
        self._windows = self._samples = self._torn = self._continued = 0
        self._cpu_s = 0.0
        self._look_s: dict[str, float] = {}
        self._as_user = ""

    def open(self, context: Context) -> Availability:
        """Whether windows were asked for and can be had; nothing is imported for those who did not
        ask."""
        wanted = context.stacks
        if wanted is None or wanted.share <= 0:
            return Availability("absent", "not asked for: profile=full records stacks")
        from slurm_io.collectors.stacks.program import find_py_spy

        program = find_py_spy(os.environ.get("PATH"))
        if program is None:
            return Availability(
                "off", "py-spy is not installed: pip install py-spy beside slurm-io"
            )
        refusal = _refusal_of_yama(context, wanted.as_root)
        if refusal:
            return Availability("off", refusal)
        from slurm_io.collectors.stacks.targets import Rotation
        from slurm_io.frames.table import load_table

        self._context, self._wanted, self._program = context, wanted, program
        self._rotation = Rotation()
        self._frames = load_table()
        self._is_open = True
        if os.geteuid() == 0:
            self._as_user = "root" if wanted.as_root else "the job's user"
        return Availability("on")

    def collect(self, tick: Tick) -> list[Row]:
        """Rows of a window that has ended since the last tick."""
        rows = self._take(tick) if self._window is not None else []
        if self._is_open and self._window is None and self._is_due(tick):
            self._start(tick)
        return rows

    def facts(self) -> dict[str, object]:
        """Windows, samples, what was refused and why, what a window costs."""
        facts: dict[str, object] = {
            "windows": self._windows,
            "samples": self._samples,
            "torn_samples": self._torn,
            "refused": dict(self._refused.most_common(_MOST_REASONS)),
            "continued": self._continued,
            "cpu_s": round(self._cpu_s, 4),
            "as_user": self._as_user,
        }
        if self._refused and not self._samples:
            reason, count = self._refused.most_common(1)[0]
            facts |= {"state": "partial", "reason": f"{count} windows refused: {reason}"}
        return facts

    def close(self) -> None:
        """End a running window; its samples are lost."""
        if self._window is not None:
            self._window.probe.stop()
            self._look_after_target(self._window)
            self._window = None

    def _is_due(self, tick: Tick) -> bool:
        if self._stuck is not None:
            if self._stuck.probe.still_stuck():
                return False
            self._stuck = None
        if self._next_ns is None:
            self._next_ns = tick.mono_ns + int(_FIRST_AFTER_S * _SECOND_NS)
        return tick.mono_ns >= self._next_ns

    def _start(self, tick: Tick) -> None:
        from slurm_io.collectors.stacks.recording import Order, longest_s, record
        from slurm_io.host.probe import Probe

        self._rotation.update(self._context.members())
        target = self._rotation.next(self._still_refusing(tick.mono_ns))
        if target is None or _state_of(self._context, target.pid) in ("T", "t", None):
            self._next_ns = tick.mono_ns + _SECOND_NS  # a suspended job is left in peace
            return
        rate_hz, duration_s = self._pace(target.role)
        order = Order(
            pid=target.pid,
            starttime=target.starttime,
            program=self._program,
            duration_s=duration_s,
            rate_hz=rate_hz,
            spool=os.fspath(self._wanted.spool),
            uid=self._context.uid,
            as_root=self._wanted.as_root,
            grid_ns=tick.mono_ns,
            proc_root=os.fspath(self._context.proc_root),
            sys_root=os.fspath(self._context.sys_root),
        )
        calls = [(record, (order, self._frames))]
        probe = Probe(calls, longest_s(duration_s), _LARGEST_ANSWER_BYTES)
        self._window = _Window(target, probe, tick)

    def _pace(self, role: str) -> tuple[int, int]:
        """(looks a second, seconds) of the next window of a rank or a worker."""
        look_s = self._look_s.get(role)
        if look_s is None:
            return RATE_HZ, FIRST_WINDOW_S
        affordable_hz = int(_MOST_CPU_S / (max(look_s, 1e-6) * WINDOW_S))
        return max(1, min(RATE_HZ, affordable_hz)), WINDOW_S

    def _still_refusing(self, now_ns: int) -> frozenset[_Who]:
        """Whom not to ask yet; who has had its time for long is forgotten (pids come and go)."""
        kept_ns = int(_LONGEST_PATIENCE_S * _SECOND_NS)
        self._refusing = {w: u for w, u in self._refusing.items() if u[0] + kept_ns > now_ns}
        return frozenset(who for who, (until_ns, _) in self._refusing.items() if until_ns > now_ns)

    def _take(self, tick: Tick) -> list[Row]:
        from slurm_io.collectors.stacks.answers import read_answer

        window = self._window
        assert window is not None
        began_s = _children_cpu_s()
        window.probe.poll()
        if not window.probe.finished:
            return []
        self._window = None
        self._windows += 1
        if window.probe.abandoned_pid is not None:
            self._stuck = window
        self._look_after_target(window)
        cpu_s = max(0.0, _children_cpu_s() - began_s)
        self._pay(window, cpu_s, tick)
        answer = window.probe.answers[0]
        told = read_answer(
            answer.value if answer is not None and answer.state == "ok"
            else {"refused": answer.reason if answer is not None else "no answer"},
            window.tick.mono_ns, tick.mono_ns,
        )  # fmt: skip
        self._note(window, told.refused, tick)
        if told.instants:
            self._look_s[window.target.role] = cpu_s / told.instants
        self._samples += told.instants - told.torn
        self._torn += told.torn
        target, offset_ns = window.target, window.tick.ts_ns - window.tick.mono_ns
        return [
            (
                end_ns + offset_ns, end_ns, _SECOND_NS, target.rank, target.pid, role, state, sub,
                samples, certain, why, folded,
            )
            for end_ns, role, state, sub, samples, certain, why, folded in told.rows
        ]  # fmt: skip

    def _pay(self, window: _Window, cpu_s: float, tick: Tick) -> None:
        """The next window starts when the share has paid for this one."""
        self._cpu_s += cpu_s
        spent_s = cpu_s if cpu_s > 0 else _DEAREST_GUESS_S
        self._next_ns = max(
            tick.mono_ns, window.tick.mono_ns + int(spent_s / self._wanted.share * _SECOND_NS)
        )

    def _note(self, window: _Window, refused: str, tick: Tick) -> None:
        who = (window.target.pid, window.target.starttime)
        if not refused or refused == ENDED:
            self._refusing.pop(who, None)
            return
        if len(self._refused) < _MOST_REASONS or refused in self._refused:
            self._refused[refused] += 1
        _, patience_s = self._refusing.get(who, (0, _PATIENCE_S / 2))
        patience_s = min(2 * patience_s, _LONGEST_PATIENCE_S)
        self._refusing[who] = (tick.mono_ns + int(patience_s * _SECOND_NS), patience_s)

    def _look_after_target(self, window: _Window) -> None:
        """py-spy in non-blocking mode stops nobody. Should one that was killed all the same have
        left its target stopped, alone of the job's processes, it is continued."""
        answer = window.probe.answers[0]
        if answer is not None and answer.state == "ok":
            return
        target = window.target
        if _state_of(self._context, target.pid) not in ("T", "t"):
            return
        others = [m.pid for m in self._context.members() if m.pid != target.pid]
        states = [state for pid in others if (state := _state_of(self._context, pid)) is not None]
        if states and all(state not in ("T", "t") for state in states):
            self._continued += _continue(target.pid, target.starttime)


class _Window:
    """One child at work."""

    def __init__(self, target: Target, probe: Probe, tick: Tick) -> None:
        self.target = target
        self.probe = probe
        self.tick = tick


_LARGEST_ANSWER_BYTES = 4 * 1024 * 1024


def _refusal_of_yama(context: Context, as_root: bool) -> str:
    """Why Yama keeps windows out, "" when it does not."""
    scope = read_optional_line(context.proc_root / "sys/kernel/yama/ptrace_scope")
    if scope in (None, "0") or os.geteuid() == 0 and as_root and scope != "3":
        return ""
    what_to_do = "set kernel.yama.ptrace_scope=0"
    if os.geteuid() == 0 and scope != "3":
        what_to_do += " or sampler.stacks_as_root=true (read its risks first)"
    return f"Yama mode {scope} lets no process of the same user look: {what_to_do}"


def _state_of(context: Context, pid: int) -> str | None:
    """State letter of a process; None when it is gone."""
    try:
        with open(f"{context.proc_root}/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError, UnicodeDecodeError):
        return None


def _continue(pid: int, starttime: int) -> bool:
    import signal

    from slurm_io.host.same_process import send_signal

    with contextlib.suppress(OSError):
        return send_signal(pid, starttime, signal.SIGCONT)
    return False


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
