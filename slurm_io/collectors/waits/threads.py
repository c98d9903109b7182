"""The threads of one process: the main thread every pass, the others only when they may matter.

A torch rank has up to 160 threads, most of which never leave one futex. A thread whose line has
not changed for some looks is parked: its files are closed and it is looked at rarely, one thread
of a process every few seconds. It is taken up again when it moves, or (unless it never moved at
all, as the housekeeping threads of every torch worker) when the main thread starts something else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from slurm_io.collectors.waits.reading import GONE, Classifier, Reading

_PARKED_LOOKS = {"cpu": 1 << 60, "storage": 1 << 60, "net": 30}
_PARKED_LOOKS_OF_OTHERS = 10  # nobody asks for what they wait for
_PARKED_EVERY_NS = 10_000_000_000
_MOST_THREADS = 1024
_RELIST_NS = 30_000_000_000
_NLINK_CHECK_NS = 5_000_000_000
_MOST_CHECK_PATIENCE = 4  # who reads may be a thread that has just been made
_SYSCALL_BYTES = 256
_WCHAN_BYTES = 128
_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC
_pread = os.pread


class ThreadProbe:
    """One thread: its two files, kept open, and how it moved.

    host.kept.KeptFile would do, at twice the price: this is read some hundred times a second.
    """

    __slots__ = (
        "_keeps_files",
        "_last",
        "_last_reading",
        "_number",
        "_pid",
        "_syscall_fd",
        "_task_folder",
        "_tid",
        "_wchan_fd",
        "error_number",
        "has_moved",
        "parked_from",
        "same_looks",
    )  # fmt: skip

    def __init__(self, pid: int, task_folder: str, tid: int, keeps_files: bool) -> None:
        self._pid = pid
        self._task_folder, self._tid = task_folder, tid
        self._keeps_files = keeps_files
        self._syscall_fd = self._wchan_fd = -1
        self.error_number: int | None = None
        self.same_looks = 0
        self.has_moved = False
        self.parked_from = _PARKED_LOOKS_OF_OTHERS
        self._last: bytes | None = None
        self._last_reading: Reading | None = None
        self._number = b""

    def look(self, classifier: Classifier) -> Reading:
        """Read the thread now."""
        try:
            fd = self._syscall_fd
            if fd < 0:
                fd = self._syscall_fd = os.open(self._path("syscall"), _OPEN_FLAGS)
            raw: bytes | None = _pread(fd, _SYSCALL_BYTES, 0)
        except OSError as error:
            self.error_number, raw = error.errno, None
            self.close()
        if not self._keeps_files:
            self.close()
        if raw == self._last:
            self.same_looks += 1
            if self._last_reading is not None:
                return self._last_reading
        else:
            self.has_moved = self._last is not None
            self.same_looks = 0
            self._last = raw
        reading = classifier.read(self._pid, raw, self)
        self.parked_from = _PARKED_LOOKS.get(reading.wait_class, _PARKED_LOOKS_OF_OTHERS)
        self._last_reading = reading if reading.is_lasting else None
        return reading

    def wchan(self) -> bytes:
        """The kernel function it sleeps in; empty when that cannot be read."""
        try:
            if self._wchan_fd < 0:
                self._wchan_fd = os.open(self._path("wchan"), _OPEN_FLAGS)
            return os.pread(self._wchan_fd, _WCHAN_BYTES, 0)
        except OSError:
            return b""

    def _path(self, name: str) -> str:
        return f"{self._task_folder}/{self._tid}/{name}"

    def changed_call(self) -> bool:
        """True when the system call is another one than at the last time this was asked."""
        if self.same_looks:
            return False
        number = (self._last or b"").partition(b" ")[0]
        changed, self._number = number != self._number, number
        return changed

    @property
    def is_parked(self) -> bool:
        """Looked the same for long and neither runs nor waits for storage."""
        return self.same_looks >= self.parked_from

    def close(self) -> None:
        """Give both descriptors back; a later look opens them again."""
        for fd in (self._syscall_fd, self._wchan_fd):
            if fd >= 0:
                os.close(fd)
        self._syscall_fd = self._wchan_fd = -1


class ProcessProbe:
    """One process. `keeps_files` False: files are opened at each look (descriptors are short).

    `helpers`: probes of the processes that work for this one. `quiet_until_ns`: until then
    :meth:`look_at_others` has nothing to do, unless the main thread starts something else and
    `wakes_with_main` says that parked threads have moved before.
    """

    __slots__ = (
        "_check_at_ns",
        "_keeps_files",
        "_list_at_ns",
        "_lively",
        "_nlink",
        "_others",
        "_parked",
        "_parked_at_ns",
        "_task_folder",
        "_turn",
        "helpers",
        "main",
        "pid",
        "quiet_until_ns",
        "starttime",
        "wakes_with_main",
    )  # fmt: skip

    def __init__(self, proc_root: str, pid: int, starttime: int, keeps_files: bool) -> None:
        self.pid = pid
        self.starttime = starttime
        self._keeps_files = keeps_files
        self._task_folder = f"{proc_root}/{pid}/task"
        self.main = self._thread(pid)
        self.helpers: Sequence[ProcessProbe] = ()
        self.quiet_until_ns = 0
        self.wakes_with_main = False
        self._others: dict[int, ThreadProbe] = {}
        self._lively: list[ThreadProbe] = []
        self._parked: list[ThreadProbe] = []
        self._nlink = 0
        self._list_at_ns = 0
        self._check_at_ns = 0
        self._parked_at_ns = 0
        self._turn = 0

    def look_at_others(
        self, classifier: Classifier, mono_ns: int, patience: int = 1
    ) -> Sequence[Reading]:
        """The other threads worth a look now, parked ones in rotation. `patience`: so many times
        less often are threads listed and parked ones looked at, where looks are few anyway."""
        if mono_ns >= self._check_at_ns:
            self._relist_if_due(mono_ns, patience)
        if self.wakes_with_main and self.main.changed_call():
            self._take_up_those_that_move()
        readings = [thread.look(classifier) for thread in self._lively]
        if self._parked and mono_ns >= self._parked_at_ns:
            self._parked_at_ns = mono_ns + _PARKED_EVERY_NS * patience
            readings += self._look_at_one_parked(classifier)
        if readings:
            self._sort()
            if any(reading is GONE for reading in readings):
                self._list_again_soon()
        self.quiet_until_ns = self._next_look_ns()
        return readings

    def _next_look_ns(self) -> int:
        if self._lively:
            return 0
        return min(self._check_at_ns, self._parked_at_ns) if self._parked else self._check_at_ns

    def _list_again_soon(self) -> None:
        """A thread that ended may have been replaced: their number alone does not tell."""
        self._list_at_ns = 0

    def close(self) -> None:
        """Give all descriptors back."""
        for thread in (self.main, *self._others.values()):
            thread.close()

    def _thread(self, tid: int) -> ThreadProbe:
        return ThreadProbe(self.pid, self._task_folder, tid, self._keeps_files)

    def _look_at_one_parked(self, classifier: Classifier) -> list[Reading]:
        self._turn += 1
        thread = self._parked[self._turn % len(self._parked)]
        reading = thread.look(classifier)
        thread.close()
        if thread.is_parked:  # a socket somebody listens to for ever is no news
            return []
        self._take_up_those_that_move()
        return [reading]

    def _take_up_those_that_move(self) -> None:
        for thread in self._parked:
            if thread.has_moved:
                thread.same_looks = 0
        self._sort()

    def _sort(self) -> None:
        self._lively = [thread for thread in self._others.values() if not thread.is_parked]
        if len(self._lively) + len(self._parked) != len(self._others):
            self._parked = [thread for thread in self._others.values() if thread.is_parked]
            self.wakes_with_main = any(thread.has_moved for thread in self._parked)
            for thread in self._parked:
                thread.close()

    def _relist_if_due(self, mono_ns: int, patience: int) -> None:
        """List threads anew when their number changed (link count of the folder), or after 30 s."""
        self._check_at_ns = mono_ns + _NLINK_CHECK_NS * min(patience, _MOST_CHECK_PATIENCE)
        try:
            nlink = os.stat(self._task_folder).st_nlink
            if nlink == self._nlink and mono_ns < self._list_at_ns:
                return
            names = os.listdir(self._task_folder)
        except OSError:
            return
        self._nlink, self._list_at_ns = nlink, mono_ns + _RELIST_NS * patience
        self._keep_only({int(name) for name in names[:_MOST_THREADS]} - {self.pid})

    def _keep_only(self, living: set[int]) -> None:
        for tid in self._others.keys() - living:
            self._others.pop(tid).close()
        for tid in living - self._others.keys():
            self._others[tid] = self._thread(tid)
        self._parked = []
        self._sort()
