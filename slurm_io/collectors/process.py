"""The job's processes.

Source: /proc/PID/stat, io and schedstat through kept descriptors; threads by state are not counted.
Columns: schema.PROCESS. Counters are deltas since this process's previous row, `interval_ns` is the
time since then; the first row of a process that was born moments ago covers its life so far, for a
worker of one pass over the data reads from its first moment on. A process whose row held neither
CPU time nor I/O nor faults rests, for two ticks, then for five, so that its next row covers all of
that. When the governor slows this source, every process rests after every row: for the period it is
slowed to on average, each for another time, so that no second is without rows and no reader that
takes each so many-th second misses a process. Nothing is lost but what a resting process does in
its last seconds of life.
main_ns and queue_ns are of ranks and workers, in a row every few seconds, later every minute: means
since the row before that has them.
Needs: the same user or root for io (else those columns are null). blkio_delay_ns needs delay
accounting (kernel.task_delayacct, off by default since Linux 5.14), main_ns and
queue_ns CONFIG_SCHED_INFO.
Cost: about 40 µs a row with caches cold, half of it in the kernel; 2048 processes at most.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from operator import sub

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Member, Row, Tick
from slurm_io.host.kept import KeptFile
from slurm_io.host.pidstat import PidStat, parse_stat
from slurm_io.host.read import read_optional_line
from slurm_io.host.run_queue import RunQueue, RunShares

_NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_KEPT_SHARE_OF_DESCRIPTORS = 0.25
_FILES_EACH = 3
_MOST_WATCHED = 2048
_FIRST_REST_NS = 1_500_000_000  # to the second tick from now, also when that comes early
_LONGEST_REST_NS = 4_500_000_000
_HALF_TICK_NS = 500_000_000
_NEWBORN_NS = 10_000_000_000

Io = tuple[int, int, int, int, int, int]
"""rchar, wchar, syscr, syscw, read_bytes, write_bytes, as the kernel lists them."""

_NO_IO = (0,) * 6
_NO_SHARES = (None, None)
_UNBORN = PidStat("", "R", *(0,) * 10)


@dataclass(slots=True)
class _Watched:
    """One process: its open files and what they last said. `rest_ns`: how long it rested last."""

    starttime: int
    stat_file: KeptFile
    io_file: KeptFile
    queue: RunQueue
    keeps: bool
    mono_ns: int = 0
    raw_stat: bytes = b""
    raw_io: bytes | None = None
    parsed_stat: PidStat | None = None
    stat: PidStat | None = None
    io: Io | None = None
    rest_ns: int = 0
    rests_until_ns: int = 0

    def rest(self, now_ns: int) -> None:
        """Nothing moved: look again later, and later still the next time."""
        self.rest_ns = _LONGEST_REST_NS if self.rest_ns else _FIRST_REST_NS
        self.rests_until_ns = now_ns + self.rest_ns

    def close(self) -> None:
        self.stat_file.close()
        self.io_file.close()
        self.queue.close()


@COLLECTORS.register("process")
class ProcessCollector:
    """One row for each living process of the job that does not rest."""

    name = "process"
    table = "process"
    period_s = 1.0

    def __init__(self) -> None:
        self._watched: dict[int, _Watched] = {}
        self._counted: dict[int, int] = {}
        self._members: Sequence[Member] = ()
        self._chosen: Sequence[Member] = ()
        self._lively: list[tuple[Member, _Watched]] = []
        self._resting: list[tuple[int, int, Member, _Watched]] = []
        self._serial = count()
        self._most_left_out = 0
        self._io_refused = 0
        self._delay_counts = False
        self._factor = 1
        self._chance = random.Random()
        self._most_kept = _most_kept_processes()

    def open(self, context: Context) -> Availability:
        """Look whether the kernel does delay accounting; processes are opened as they come."""
        self._context = context
        switch = read_optional_line(context.proc_root / "sys/kernel/task_delayacct")
        self._delay_switch = switch
        self._delay_counts = switch == "1"
        if not (context.proc_root / "self").exists():
            return Availability("off", f"no process table at {context.proc_root}")
        return Availability("on")

    def slow_down(self, factor: int) -> None:
        """One row a process each `factor` seconds on average. At full pace again, nothing rests:
        the next tick, which may be the last, has a row of each."""
        self._factor = factor
        if factor == 1:
            for watched in self._watched.values():
                watched.rests_until_ns = 0
            self._sort_anew()

    def collect(self, tick: Tick) -> list[Row]:
        """Rows of all members seen before and of those just born; the first sight of a process
        that had lived before only opens it."""
        members = self._context.members()
        if members is not self._members:
            self._members = members
            self._choose(members)
        now_ns = tick.mono_ns
        rows = [self._row(member, watched, tick) for member, watched in self._lively]
        while self._resting and self._resting[0][0] <= now_ns:
            _due, _serial, member, watched = self._resting[0]
            rows.append(self._row(member, watched, tick))
            heappop(self._resting)
            self._lively.append((member, watched))
        self._send_to_rest(now_ns)
        return [row for row in rows if row is not None]

    def _send_to_rest(self, now_ns: int) -> None:
        """Nobody is asked at a tick whether he still rests: a node has hundreds that do."""
        for member, watched in self._lively:
            if watched.rests_until_ns > now_ns:
                entry = (watched.rests_until_ns, next(self._serial), member, watched)
                heappush(self._resting, entry)
        self._lively = [one for one in self._lively if one[1].rests_until_ns <= now_ns]

    def facts(self) -> dict[str, object]:
        """Processes watched, left out (at most at a time) and refused; whether delays count."""
        return {
            "processes": len(self._watched),
            "left_out": self._most_left_out,
            "io_refused": self._io_refused,
            "blkio_delay": "on" if self._delay_counts else "off: kernel.task_delayacct is 0",
        }

    def close(self) -> None:
        """Close all files."""
        self._forget_all_but(())

    def _choose(self, members: Sequence[Member]) -> None:
        """Ranks and workers come first where a job has more processes than a budget can bear."""
        chosen = members
        if len(members) > _MOST_WATCHED:
            first = sorted(members, key=lambda member: member.role == "other")
            chosen = first[:_MOST_WATCHED]
            self._most_left_out = max(self._most_left_out, len(members) - len(chosen))
        self._chosen = chosen
        self._forget_all_but(chosen)
        self._sort_anew()

    def _sort_anew(self) -> None:
        """All as if they had just been looked at: who rests goes on resting."""
        self._resting = []
        self._lively = [
            (member, self._watched.get(member.pid) or self._watch(member))
            for member in self._chosen
        ]
        self._send_to_rest(0)

    def _forget_all_but(self, members: Iterable[Member]) -> None:
        self._counted = {
            pid: start for pid, start in self._counted.items() if _birth_of_newborn(start)
        }
        living = {member.pid: member.starttime for member in members}
        for pid in [p for p, seen in self._watched.items() if living.get(p) != seen.starttime]:
            self._counted[pid] = self._watched[pid].starttime
            self._watched.pop(pid).close()

    def _watch(self, member: Member) -> _Watched:
        folder = self._context.proc_root / str(member.pid)
        keeps = len(self._watched) < self._most_kept
        files = KeptFile(folder / "stat"), KeptFile(folder / "io")
        queue = RunQueue(folder, self._chance)
        watched = _Watched(member.starttime, *files, queue, keeps)
        born_ns = _birth_of_newborn(member.starttime)
        # What was looked at before under another role, or was left out meanwhile, is counted once.
        if born_ns is not None and self._counted.get(member.pid) != member.starttime:
            watched.mono_ns, watched.stat, watched.io = born_ns, _UNBORN, _NO_IO
        self._watched[member.pid] = watched
        return watched

    def _row(self, member: Member, watched: _Watched, tick: Tick) -> Row | None:
        stat = self._read_stat(watched)
        if stat is None or stat.starttime != member.starttime:
            return None
        io = self._read_io(watched)
        old_stat, old_io, old_ns = watched.stat, watched.io, watched.mono_ns
        watched.stat, watched.io, watched.mono_ns = stat, io, tick.mono_ns
        shares = None
        if tick.mono_ns >= watched.queue.due_ns and member.role != "other":
            shares = watched.queue.shares(tick.mono_ns)
        if not watched.keeps:
            watched.close()
        if old_stat is None or tick.mono_ns <= old_ns:
            return None
        if stat is old_stat and io == old_io:
            watched.rest(tick.mono_ns)
        else:
            watched.rest_ns = 0
        if self._factor > 1:
            watched.rests_until_ns = max(
                watched.rests_until_ns, tick.mono_ns + self._slowed_rest_ns()
            )
        interval_ns = tick.mono_ns - old_ns
        head = (tick.ts_ns, tick.mono_ns, interval_ns, member.pid, member.starttime)
        who = (member.rank, member.role, stat.comm)
        run_cells = _NO_SHARES if shares is None else _run_cells(shares, interval_ns)
        return head + who + self._stat_cells(old_stat, stat) + _io_cells(old_io, io) + run_cells

    def _slowed_rest_ns(self) -> int:
        mean_ns = int(self._factor * self.period_s * 1e9)
        return int(mean_ns * self._chance.uniform(0.5, 1.5)) - _HALF_TICK_NS

    def _read_stat(self, watched: _Watched) -> PidStat | None:
        """Most processes of a job sleep: a line that did not change is not parsed again."""
        raw = watched.stat_file.read() or b""
        if raw != watched.raw_stat:
            if not _differ_by_state_only(raw, watched.raw_stat):
                watched.parsed_stat = parse_stat(raw)
            watched.raw_stat = raw
        return watched.parsed_stat

    def _read_io(self, watched: _Watched) -> Io | None:
        if watched.io_file.error_number in (errno.EACCES, errno.EPERM):
            return None  # refused once: it will be refused again, and every try costs an open
        raw = watched.io_file.read()
        if watched.io_file.error_number in (errno.EACCES, errno.EPERM):
            self._io_refused += 1
        if raw == watched.raw_io:
            return watched.io
        watched.raw_io = raw
        return parse_io(raw or b"")

    def _stat_cells(self, old: PidStat, new: PidStat) -> Row:
        cpu_ticks = new.utime_ticks + new.stime_ticks - old.utime_ticks - old.stime_ticks
        delay_ticks = new.blkio_delay_ticks - old.blkio_delay_ticks
        # Kernels before 5.14 have no switch: there, only a counter that moved proves itself.
        if self._delay_switch is None and new.blkio_delay_ticks > 0:
            self._delay_counts = True
        if old is new:
            delay_ns = 0 if self._delay_counts else None
            return 0, new.rss_pages * _PAGE_BYTES, new.num_threads, 0, 0, delay_ns
        return (
            max(0, cpu_ticks) * _NS_PER_TICK, new.rss_pages * _PAGE_BYTES, new.num_threads,
            max(0, new.minflt - old.minflt), max(0, new.majflt - old.majflt),
            max(0, delay_ticks) * _NS_PER_TICK if self._delay_counts else None,
        )  # fmt: skip


def _birth_of_newborn(starttime: int) -> int | None:
    """The monotonic moment, ns; None when it was long ago: such a process may have had rows."""
    asleep_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    born_ns = starttime * _NS_PER_TICK - asleep_ns
    return born_ns if 0 <= time.monotonic_ns() - born_ns <= _NEWBORN_NS else None


def _differ_by_state_only(raw: bytes, old: bytes) -> bool:
    """A process that wakes and sleeps between R and S did nothing else that `stat` shows."""
    state = raw.rfind(b")") + 2
    return state > 1 and raw[:state] == old[:state] and raw[state + 1 :] == old[state + 1 :]


def parse_io(raw: bytes) -> Io | None:
    """/proc/PID/io: ``rchar: 750339`` and five more lines in fixed order, or None when cut."""
    words = raw.split()
    if len(words) < 12 or words[0] != b"rchar:":
        return None
    try:
        return (
            int(words[1]), int(words[3]), int(words[5]), int(words[7]), int(words[9]),
            int(words[11]),
        )  # fmt: skip
    except ValueError:
        return None


def _io_cells(old: Io | None, new: Io | None) -> Row:
    if old is None or new is None:
        return (None,) * 6
    if old == new:
        return _NO_IO
    grown = tuple(map(sub, new, old))
    return grown if min(grown) >= 0 else tuple(max(0, growth) for growth in grown)


def _run_cells(shares: RunShares, interval_ns: int) -> Row:
    return round(shares.ran * interval_ns), round(shares.queued * interval_ns)


def _most_kept_processes() -> int:
    """How many processes may keep their files open; the others are opened at each row."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return int(soft * _KEPT_SHARE_OF_DESCRIPTORS / _FILES_EACH)
