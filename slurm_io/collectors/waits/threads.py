"""The threads of one process: the main thread every pass, the others only when they may matter.

A torch rank has up to 160 threads, most of which never leave one futex. A thread whose line has
not changed for `_PARKED_LOOKS` looks is parked: its files are closed and it is looked at rarely,
one thread every few passes. It is taken up again when it moves, or (unless it never moved at all,
as the housekeeping threads of every torch worker) when the main thread starts something else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from slurm_io.collectors.waits.reading import Classifier, Reading

_PARKED_LOOKS = 30
_PARKED_EVERY = 8
_MOST_THREADS = 1024
_RELIST_NS = 10_000_000_000
_NLINK_CHECK_NS = 1_000_000_000
_SYSCALL_BYTES = 256
_WCHAN_BYTES = 128
_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC


class ThreadProbe:
    """One thread: its two files, kept open, and how it moved.

    host.kept.KeptFile would do, at twice the price: this is read some hundred times a second.
    """

    __slots__ = (
        "_folder",
        "_keeps_files",
        "_last",
        "_last_reading",
        "_number",
        "_pid",
        "_syscall_fd",
        "_wchan_fd",
        "error_number",
        "has_moved",
        "is_busy",
        "same_looks",
    )  # fmt: skip

    def __init__(self, pid: int, folder: str, keeps_files: bool) -> None:
        self._pid = pid
        self._folder = folder
        self._keeps_files = keeps_files
        self._syscall_fd = self._wchan_fd = -1
        self.error_number: int | None = None
        self.same_looks = 0
        self.has_moved = False
        self.is_busy = False
        self._last: bytes | None = None
        self._last_reading: Reading | None = None
        self._number = b""

    def look(self, classifier: Classifier) -> Reading:
        """Read the thread now."""
        try:
            if self._syscall_fd < 0:
                self._syscall_fd = os.open(self._folder + "/syscall", _OPEN_FLAGS)
            raw: bytes | None = os.pread(self._syscall_fd, _SYSCALL_BYTES, 0)
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
        self.is_busy = reading.wait_class in ("cpu", "storage")
        self._last_reading = reading if reading.is_lasting else None
        return reading

    def wchan(self) -> bytes:
        """The kernel function it sleeps in; empty when that cannot be read."""
        try:
            if self._wchan_fd < 0:
                self._wchan_fd = os.open(self._folder + "/wchan", _OPEN_FLAGS)
            return os.pread(self._wchan_fd, _WCHAN_BYTES, 0)
        except OSError:
            return b""

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
        return self.same_looks >= _PARKED_LOOKS and not self.is_busy

    def close(self) -> None:
        """Give both descriptors back; a later look opens them again."""
        for fd in (self._syscall_fd, self._wchan_fd):
            if fd >= 0:
                os.close(fd)
        self._syscall_fd = self._wchan_fd = -1


class ProcessProbe:
    """One process. `keeps_files` False: files are opened at each look (descriptors are short)."""

    def __init__(self, proc_root: str, pid: int, starttime: int, keeps_files: bool) -> None:
        self.pid = pid
        self.starttime = starttime
        self._keeps_files = keeps_files
        self._task_folder = f"{proc_root}/{pid}/task"
        self.main = self._thread(pid)
        self._others: dict[int, ThreadProbe] = {}
        self._lively: list[ThreadProbe] = []
        self._parked: list[ThreadProbe] = []
        self._nlink = 0
        self._listed_ns = -_RELIST_NS
        self._check_at_ns = 0
        self._turn = 0

    def has_others_to_look_at(self, mono_ns: int) -> bool:
        """Cheap answer, asked at every pass: whether :meth:`look_at_others` would do anything."""
        self._turn += 1
        return bool(
            self._lively
            or self._turn % _PARKED_EVERY == 0
            or mono_ns >= self._check_at_ns
            or (self._parked and self.main.same_looks == 0)
        )

    def look_at_others(self, classifier: Classifier, mono_ns: int) -> Sequence[Reading]:
        """The other threads worth a look now, parked ones in rotation."""
        if mono_ns >= self._check_at_ns:
            self._relist_if_due(mono_ns)
        if self._parked and self.main.changed_call():
            self._take_up_those_that_move()
        readings = [thread.look(classifier) for thread in self._lively]
        if self._parked and self._turn % _PARKED_EVERY == 0:
            readings += self._look_at_one_parked(classifier)
        if readings:
            self._sort()
        return readings

    def close(self) -> None:
        """Give all descriptors back."""
        for thread in (self.main, *self._others.values()):
            thread.close()

    def _thread(self, tid: int) -> ThreadProbe:
        return ThreadProbe(self.pid, f"{self._task_folder}/{tid}", self._keeps_files)

    def _look_at_one_parked(self, classifier: Classifier) -> list[Reading]:
        thread = self._parked[(self._turn // _PARKED_EVERY) % len(self._parked)]
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
            for thread in self._parked:
                thread.close()

    def _relist_if_due(self, mono_ns: int) -> None:
        """List threads anew when their number changed (link count of the folder), or after 10 s."""
        self._check_at_ns = mono_ns + _NLINK_CHECK_NS
        try:
            nlink = os.stat(self._task_folder).st_nlink
            if nlink == self._nlink and mono_ns - self._listed_ns < _RELIST_NS:
                return
            names = os.listdir(self._task_folder)
        except OSError:
            return
        self._nlink, self._listed_ns = nlink, mono_ns
        self._keep_only({int(name) for name in names[:_MOST_THREADS]} - {self.pid})

    def _keep_only(self, living: set[int]) -> None:
        for tid in self._others.keys() - living:
            self._others.pop(tid).close()
        for tid in living - self._others.keys():
            self._others[tid] = self._thread(tid)
        self._parked = []
        self._sort()
