"""What a descriptor of another process is: /proc/PID/fd/N, fdinfo and the memory of a poll call.

A socket's family is the one thing its link does not say; the socket file system answers it as the
extended attribute ``system.sockprotoname`` (``TCP``, ``UNIX-STREAM``), which lsof uses as well.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Literal

FdKind = Literal["file", "pipe", "inet", "unix", "gpu", "other"]

_POLLFD = struct.Struct("<ihh")
_PAGEMAP = struct.Struct("<Q")
_PRESENT = 1 << 63
_KIND = _PRESENT | 1 << 61  # the lower bit: of a file, or shared memory
_MOST_POLLED = 4
_FAMILY_ATTRIBUTE = "system.sockprotoname"
_NO_STORAGE = ("/dev/", "/proc/", "/sys/", "/memfd:")
_GPU_DEVICES = ("/dev/nvidia", "/dev/dri/", "/dev/kfd")
_MOST_PATH_CHARACTERS = 1024
_MOST_PATH_BYTES = 1024
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class FdReader:
    """Looks at descriptors below one proc root. Nothing here raises; None = could not be read."""

    def __init__(self, proc_root: Path) -> None:
        self._root = os.fspath(proc_root)

    def link(self, pid: int, fd: int) -> str | None:
        """Where /proc/PID/fd/FD points, made safe to store."""
        return self._readlink(f"{pid}/fd/{fd}")

    def _readlink(self, name: str) -> str | None:
        try:
            target = os.readlink(f"{self._root}/{name}".encode())
        except OSError:
            return None
        return target.decode("utf-8", "replace")[-_MOST_PATH_CHARACTERS:].replace("\0", "?")

    def kind(self, pid: int, fd: int) -> FdKind | None:
        """What the descriptor is."""
        target = self.link(pid, fd)
        if target is None:
            return None
        if target.startswith("socket:"):
            return self._family(pid, fd)
        return kind_of_link(target)

    def mount_id(self, pid: int, fd: int) -> int | None:
        """``mnt_id`` of the descriptor, the key into the process's mountinfo."""
        text = self._read(f"{pid}/fdinfo/{fd}", 512)
        start = text.find(b"mnt_id:")
        words = text[start + 7 :].split(None, 1) if start >= 0 else []
        return int(words[0]) if words and words[0].isdigit() else None

    def path_at(self, pid: int, address: int) -> str | None:
        """The path a system call under way was given, made safe to store."""
        # In two pieces, because a read across the end of the mapping fails as a whole.
        first = _PAGE_BYTES - address % _PAGE_BYTES if address > 0 else 0
        raw = self._memory(pid, min(first, _MOST_PATH_BYTES), address) if first else b""
        if b"\0" not in raw and len(raw) == first:
            raw += self._memory(pid, _MOST_PATH_BYTES, address + first)
        path, end, _rest = raw.partition(b"\0")
        return path.decode("utf-8", "replace") if end else None

    def working_folder(self, pid: int) -> str | None:
        """The process's current folder."""
        return self._readlink(f"{pid}/cwd")

    def polled(self, pid: int, address: int, count: int) -> list[int]:
        """Descriptors of a poll(2) call under way; empty for many or when memory is closed."""
        if not 0 < count <= _MOST_POLLED:
            return []
        raw = self._memory(pid, _POLLFD.size * count, address)
        whole = len(raw) - len(raw) % _POLLFD.size
        return [fd for fd, _events, _revents in _POLLFD.iter_unpack(raw[:whole]) if fd >= 0]

    def _memory(self, pid: int, size_bytes: int, address: int) -> bytes:
        """Empty unless the page at `address` is in memory and of no file: a page of a file on a
        mount that hangs would be waited for, and not even SIGKILL ends that."""
        place = address // _PAGE_BYTES * _PAGEMAP.size
        raw = self._read(f"{pid}/pagemap", _PAGEMAP.size, place) if address > 0 else b""
        if len(raw) < _PAGEMAP.size or _PAGEMAP.unpack(raw)[0] & _KIND != _PRESENT:
            return b""
        within_page = min(size_bytes, _PAGE_BYTES - address % _PAGE_BYTES)
        return self._read(f"{pid}/mem", within_page, address)

    def _family(self, pid: int, fd: int) -> FdKind:
        try:
            name = os.getxattr(f"{self._root}/{pid}/fd/{fd}", _FAMILY_ATTRIBUTE)
        except OSError:
            return "other"
        if name.startswith(b"UNIX"):
            return "unix"
        return "inet" if name.startswith((b"TCP", b"UDP", b"MPTCP", b"SCTP")) else "other"

    def _read(self, name: str, size_bytes: int, offset: int = 0) -> bytes:
        try:
            fd = os.open(f"{self._root}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.pread(fd, size_bytes, offset)
        except (OSError, OverflowError):
            return b""
        finally:
            os.close(fd)


def kind_of_link(target: str) -> FdKind:
    """Kind of a descriptor from its link, sockets apart."""
    if target.startswith(_GPU_DEVICES):
        return "gpu"
    if target.startswith("pipe:"):
        return "pipe"
    if target.startswith("/") and not target.startswith(_NO_STORAGE):
        return "file"
    return "pipe" if target.startswith("anon_inode:") else "other"
