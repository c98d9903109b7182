"""What one thread is doing, judged from its ``syscall`` and, where that leaves doubt, ``wchan``.

/proc/PID/task/TID/syscall reads ``running`` (on a CPU or ready to), ``-1 SP PC`` (asleep outside
any system call: a page fault), or the call's number and arguments::

    0 0x3 0x7f6b33b38590 0x1 0x7f6b33e8f8b0 0x0 0x0 0x7f6b33ae8a30 0x7f6b341162ec

The kernel makes sure that the task sleeps while it reads the arguments, so the number alone
decides for a futex or a nanosleep, and wchan is read only for calls that can mean several things.
A wchan of ``0`` then says that the thread woke between the two reads: never CPU, for it slept in
that call. What the call waited for is told by its descriptor or path; of a fault, by nothing. Short
waits race most often: called unknown, they would be missing from the storage that they are.
"""

from __future__ import annotations

import errno
from typing import NamedTuple, Protocol

from slurm_io.collectors.waits.fds import FdKind
from slurm_io.collectors.waits.syscalls import Group, Syscall
from slurm_io.collectors.waits.wchan import Place, WchanReader

_REFUSED = (errno.EPERM, errno.EACCES)
_LARGEST_FD = 1 << 30


class Reading(NamedTuple):
    """One thread at one moment. `fd`, `is_write`, `is_fault` and `wchan` speak of storage waits;
    `path_address` is where a call that takes a path has it, `fd` then the folder it starts from.
    `pid` is set when another process waits in place of the one that is counted. `is_lasting`: the
    reading stands as long as the line in ``syscall`` stays the same."""

    wait_class: str
    call: str = ""
    fd: int | None = None
    is_write: bool = False
    is_fault: bool = False
    wchan: str = ""
    pid: int | None = None
    path_address: int | None = None
    is_lasting: bool = False


class Thread(Protocol):
    """A thread that can be asked further; :class:`threads.ThreadProbe` is one."""

    error_number: int | None

    def wchan(self) -> bytes:
        """The kernel function it sleeps in."""


class Descriptors(Protocol):
    """Answers about descriptors of the process at hand."""

    def kind(self, pid: int, fd: int) -> FdKind | None:
        """What a descriptor is."""

    def polled(self, pid: int, address: int, count: int) -> list[int]:
        """Descriptors of a poll call under way."""


CPU = Reading("cpu", is_lasting=True)
GONE = Reading("gone")  # never counted
REFUSED = Reading("unknown", "refused")
OTHER = Reading("other")
_BY_NUMBER: dict[Group, Reading] = {
    "lock": Reading("lock", "futex", is_lasting=True),
    "sleep": Reading("sleep", "nanosleep", is_lasting=True),
    "child": Reading("other", "wait4", is_lasting=True),
    "epoll": Reading("pipe", "epoll", is_lasting=True),
    "select": Reading("pipe", "select", is_lasting=True),
}
_OF_FD_KIND: dict[FdKind | None, str] = {
    "file": "storage", "pipe": "pipe", "unix": "pipe", "inet": "net", "gpu": "gpu",
    "other": "other", None: "unknown",
}  # fmt: skip
_OF_PLACE: dict[Place, str] = {
    "storage": "storage", "pipe": "pipe", "net": "net", "lock": "lock", "gpu": "gpu",
    "sleep": "sleep", "child": "other", "race": "unknown", "elsewhere": "other",
}  # fmt: skip


class Classifier:
    """Reads threads. `calls` is the architecture's table (:func:`syscalls.table_for`)."""

    def __init__(self, calls: dict[bytes, Syscall], descriptors: Descriptors) -> None:
        self._calls = calls
        self._descriptors = descriptors
        self._wchan = WchanReader()

    def read(self, pid: int, raw: bytes | None, thread: Thread) -> Reading:
        """One thread of process `pid`; `raw` is what `syscall` held."""
        if raw is None:
            return REFUSED if thread.error_number in _REFUSED else GONE
        if raw.startswith(b"running"):
            return CPU
        number, _, _rest = raw.partition(b" ")
        call = self._calls.get(number)
        if call is None:
            return self._without_call(number, thread)
        known = _BY_NUMBER.get(call.group)
        if known is not None:
            return known
        return self._by_group(pid, call, raw.split(), thread)

    def _without_call(self, number: bytes, thread: Thread) -> Reading:
        name, place = self._place(thread)
        if place == "storage":
            return Reading("storage", "", is_fault=number == b"-1", wchan=name)
        return Reading(_OF_PLACE[place])

    def _by_group(self, pid: int, call: Syscall, words: list[bytes], thread: Thread) -> Reading:
        if call.group == "poll":
            return self._poll(pid, words)
        if call.group == "ioctl" and self._descriptors.kind(pid, _argument(words, 1)) == "gpu":
            return Reading("gpu", call.name)
        name, place = self._place(thread)
        fd = _argument(words, 2 if call.group == "fd2" else 1)
        if call.group == "path":
            # A lock here is an inode's: somebody else's lookup or write in the same folder.
            is_storage = place in ("storage", "lock", "elsewhere", "race")
            return _with_path(call, words, name) if is_storage else Reading(_OF_PLACE[place])
        has_fd = call.group in ("fd", "fd2", "socket", "ioctl")
        if place == "storage" or call.group == "aio":
            return self._storage(call, fd if has_fd else None, name)
        if call.group in ("fd", "fd2", "socket") and place not in ("pipe", "gpu"):
            return self._by_descriptor(pid, call, fd, name)
        return Reading(_OF_PLACE[place], call.name, is_lasting=place == "pipe")

    def _by_descriptor(self, pid: int, call: Syscall, fd: int, name: str) -> Reading:
        wait_class = _OF_FD_KIND[self._descriptors.kind(pid, fd)]
        if wait_class == "storage":
            return Reading("lock") if call.name == "flock" else self._storage(call, fd, name)
        if call.name in ("accept", "accept4"):
            return Reading("pipe", call.name)  # a server waiting to be asked
        return Reading(wait_class, call.name, is_lasting=wait_class in ("pipe", "net"))

    def _poll(self, pid: int, words: list[bytes]) -> Reading:
        fds = self._descriptors.polled(pid, _argument(words, 1), _argument(words, 2))
        kinds = [self._descriptors.kind(pid, fd) for fd in fds]
        if "gpu" in kinds:
            return Reading("gpu", "poll")
        return Reading("net" if "inet" in kinds else "pipe", "poll", is_lasting=True)

    def _storage(self, call: Syscall, fd: int | None, name: str) -> Reading:
        return Reading("storage", call.name, fd, call.is_write, False, name)

    def _place(self, thread: Thread) -> tuple[str, Place]:
        return self._wchan.read(thread.wchan())


def _with_path(call: Syscall, words: list[bytes], name: str) -> Reading:
    if call.path_argument is None:
        return Reading("storage", call.name, None, call.is_write, False, name)
    address = _argument(words, call.path_argument)
    folder = _argument(words, 1) if call.path_argument == 2 else -1
    # AT_FDCWD is -100 as the kernel prints it: 0xffffff9c, or 16 digits of it.
    fd = folder if 0 <= folder < _LARGEST_FD else None
    return Reading("storage", call.name, fd, call.is_write, False, name, path_address=address)


def _argument(words: list[bytes], number: int) -> int:
    """System call argument `number` from 1; -1 when it is not there."""
    try:
        return int(words[number], 16)
    except (IndexError, ValueError):
        return -1
