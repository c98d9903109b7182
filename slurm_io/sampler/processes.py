"""The process table, kept up to date cheaply: only pids not seen before are read.

/proc is listed when the kernel has given out a pid since the last time (last field of loadavg), at
least every tenth refresh; a pid that is new costs one read of its ``stat``. A pid can be
reused between two listings, and a process can change its name, parent or end as a zombie, so a
slice of the known ones is read again at every refresh and all members within some refreshes.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from slurm_io.errors import HostError
from slurm_io.host.kept import KeptFile
from slurm_io.host.pidstat import PidStat, parse_stat

_MOST_NEW_READS = 2000
_STAT_BYTES = 2048
_MOST_REREADS = 2
_LISTING_EVERY = 10
_MOST_KNOWN = 200_000
_OLD_S = 60.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)  # there is one of each process of the node
class Process:
    """One process. `first_seen` counts refreshes; `uid` is None when the folder was closed;
    `stat_hash` is that of the line that was read again last: the same need not be parsed.
    `is_old`: it had lived for long when it was first seen. `arg_start` tells a Python that a Python
    forked from the same one after exec: their names are the same, environment and command line are
    not."""

    pid: int
    starttime: int
    ppid: int
    comm: str
    uid: int | None
    first_seen: int
    is_old: bool = False
    arg_start: int = 0
    stat_hash: int = field(default=0, repr=False, compare=False)

    @property
    def image(self) -> tuple[int, int, str, int]:
        """The same as long as the process executes no other program."""
        return self.pid, self.starttime, self.comm, self.arg_start


@dataclass
class Zombie:
    """A process that has ended and that nobody has collected; first and last refresh it was seen
    so."""

    starttime: int
    ppid: int
    first_seen: int
    last_seen: int


class ProcessTable:
    """Processes of one proc root, zombies left out: those are in `zombies`, by pid. `refused` are
    pids whose ``stat`` this user may not read (hidepid=1). `left_out` are pids at which a read
    hangs: nothing of them is touched. While there are any, only pids among `wanted` are (None: all
    are), because the next one could hang as well.

    :meth:`refresh` and :meth:`reread` raise HostError when this process has no descriptor left to
    look with: a process that was not looked at is not gone.
    """

    def __init__(self, proc_root: Path) -> None:
        self._root = os.fspath(proc_root)
        self._known: dict[int, Process] = {}
        self._rotation: list[int] = []
        self._loadavg = KeptFile(proc_root / "loadavg")
        self._last_pid = b""
        self._listed_at = -_LISTING_EVERY
        self._backlog = False
        self.refreshes = 0
        self.zombies: dict[int, Zombie] = {}
        self.refused: set[int] = set()
        self.left_out: set[int] = set()
        self.wanted: frozenset[int] | None = None

    def get(self, pid: int) -> Process | None:
        """The process that has this pid now, as of the last refresh."""
        return self._known.get(pid)

    def all(self) -> Iterable[Process]:
        """Every known process."""
        return self._known.values()

    def refresh(self) -> tuple[list[Process], set[int]]:
        """(new processes, pids that are gone or were replaced)."""
        self.refreshes += 1
        if not self._must_list():
            return [], self._reread_slice()
        listed = self._list() - self.left_out
        if self.left_out and self.wanted is not None:
            listed &= self.wanted
        self._listed_at = self.refreshes
        gone = self._known.keys() - listed
        for pid in gone:
            del self._known[pid]
        self.zombies = {pid: each for pid, each in self.zombies.items() if pid in listed}
        self.refused &= listed
        replaced = self._reread_slice()
        unseen = sorted(listed - self._known.keys())
        self._backlog = len(unseen) > _MOST_NEW_READS
        unseen = unseen[:_MOST_NEW_READS]
        new = [process for pid in unseen if (process := self._read(pid)) is not None]
        for process in new:
            if len(self._known) < _MOST_KNOWN:
                self._known[process.pid] = process
        return new, gone | replaced

    def reread(self, process: Process) -> bool:
        """Bring name and parent up to date; False when that process is gone or a zombie."""
        raw = self._raw_stat(process.pid)
        if raw and hash(raw) == process.stat_hash:
            return True
        stat = self._living(process.pid, raw)
        if stat is None or stat.starttime != process.starttime:
            return False
        process.comm, process.ppid, process.stat_hash = stat.comm, stat.ppid, hash(raw)
        process.arg_start = stat.arg_start
        return True

    def leave_out(self, pid: int) -> None:
        """Touch it no more, as long as it stands in `left_out`."""
        self.left_out.add(pid)
        self.drop(pid)
        self._backlog = True  # list at the next refresh: who is not wanted goes

    def take_back(self, pid: int) -> None:
        """It is read as a new one when pids are listed next."""
        self._backlog = True
        self.left_out.discard(pid)

    @property
    def was_listed(self) -> bool:
        """Whether the last refresh listed pids."""
        return self._listed_at == self.refreshes

    def drop(self, pid: int) -> None:
        """Forget a process; it is read again when its pid is still listed."""
        self._known.pop(pid, None)

    def read_again(self, pid: int) -> Process | None:
        """Read a process anew that was seen under this pid before; None when there is none."""
        self._known.pop(pid, None)
        process = self._read(pid)
        if process is not None:
            self._known[pid] = process
        return process

    def _must_list(self) -> bool:
        words = (self._loadavg.read() or b"").split()
        last_pid, self._last_pid = self._last_pid, words[4] if len(words) > 4 else b""
        is_quiet = bool(last_pid) and last_pid == self._last_pid and not self._backlog
        return not is_quiet or self.refreshes - self._listed_at >= _LISTING_EVERY

    def _list(self) -> set[int]:
        try:
            return set(map(int, filter(str.isdecimal, os.listdir(self._root))))
        except OSError as error:
            _refuse_to_guess(error)
            return set()

    def _reread_slice(self) -> set[int]:
        """Pids of the slice whose process is another one now, or none."""
        if not self._rotation:
            self._rotation = list(self._known)
        turn, self._rotation = self._rotation[:_MOST_REREADS], self._rotation[_MOST_REREADS:]
        known = [self._known[pid] for pid in turn if pid in self._known]
        replaced = {process.pid for process in known if not self.reread(process)}
        for pid in replaced:
            del self._known[pid]
        return replaced

    def _read(self, pid: int) -> Process | None:
        stat = self._living(pid, self._raw_stat(pid))
        if stat is None:
            return None
        owner = self.owner_of(pid)
        is_old = _age_s(stat.starttime) > _OLD_S
        return Process(
            pid, stat.starttime, stat.ppid, stat.comm, owner, self.refreshes, is_old, stat.arg_start
        )

    def owner_of(self, pid: int) -> int | None:
        """Owner of a process; None when it is gone."""
        try:
            return os.stat(f"{self._root}/{pid}").st_uid
        except OSError:
            return None

    def _living(self, pid: int, raw: bytes) -> PidStat | None:
        """None when the process has ended; a zombie has."""
        stat = parse_stat(raw)
        if stat is None:
            return None
        before = self.zombies.pop(pid, None)
        if stat.state not in "ZXx":
            return stat
        if before is None or before.starttime != stat.starttime:
            before = Zombie(stat.starttime, stat.ppid, self.refreshes, self.refreshes)
        before.last_seen = self.refreshes
        self.zombies[pid] = before
        return None

    def _raw_stat(self, pid: int) -> bytes:
        """Empty when the process has ended or may not be looked at."""
        if pid in self.left_out:
            return b""
        try:
            fd = os.open(f"{self._root}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            _refuse_to_guess(error)
            if error.errno in (errno.EACCES, errno.EPERM):
                self.refused.add(pid)
            return b""
        try:
            return os.read(fd, _STAT_BYTES)
        except OSError:
            return b""
        finally:
            os.close(fd)


def _age_s(starttime: int) -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) - starttime / _TICKS_PER_S


def _refuse_to_guess(error: OSError) -> None:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise HostError(f"cannot look at processes: {error.strerror}: raise `ulimit -n`")
