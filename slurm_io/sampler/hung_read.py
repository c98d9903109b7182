"""Tells whose file of /proc a thread of this process hangs at.

A read of /proc/PID can sleep as long as a dead mount wants it to. The kernel holds a process's
``exec_update_lock`` while execve(2) closes its files, and closing a file on a hung NFS or FUSE
mount does not return: reading its ``io``, ``syscall``, ``environ`` or ``maps`` then sleeps too
(5.11 and later; before, for the whole execve, ``cred_guard_mutex``), on newer kernels its ``stat``
and ``wchan`` as well (measured with 6.18.44). ``environ``, ``cmdline`` and ``maps`` wait for the
memory lock, ``mem`` for the page itself. Only SIGKILL ends such a sleep, a page's not even that.

The thread need not say what it reads: ``syscall`` of a thread of one's own is always open, and
names the descriptor or the path. So looking costs nothing where nothing hangs.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from slurm_io.collectors.waits.fds import FdReader
from slurm_io.collectors.waits.syscalls import Syscall, table_for
from slurm_io.host.read import read_optional_text

_OWN = Path("/proc")


@dataclass(frozen=True)
class HungRead:
    """`file` is below /proc/PID. `mark` is the same as long as the thread sleeps the same sleep."""

    pid: int
    file: str
    mark: str


class HungReads:
    """:meth:`of_thread` for threads of this process that read below `proc_root`."""

    def __init__(self, proc_root: Path) -> None:
        self._calls = table_for()
        self._fds = FdReader(_OWN)
        self._place = re.compile(re.escape(os.fspath(proc_root)) + r"/([0-9]{1,10})(?:/(.*))?")

    def of_thread(self, tid: int) -> HungRead | None:
        """What the thread sleeps at; None when it runs, or sleeps in anything else."""
        folder = _OWN / "self" / "task" / str(tid)
        line = read_optional_text(folder / "syscall", 256) or ""
        call = self._calls.get(line.partition(" ")[0].encode())
        path = self._path(call, line.split()) if call is not None else None
        found = self._place.fullmatch(path) if path is not None else None
        if found is None:
            return None
        turns = read_optional_text(folder / "schedstat", 256) or ""
        return HungRead(int(found[1]), found[2] or "", line + turns)

    def _path(self, call: Syscall, words: list[str]) -> str | None:
        number = call.path_argument or (1 if call.group == "fd" else None)
        if number is None or number >= len(words):
            return None
        argument = int(words[number], 16)
        if call.path_argument is None:
            return self._fds.link(os.getpid(), argument)
        return self._fds.path_at(os.getpid(), argument)
