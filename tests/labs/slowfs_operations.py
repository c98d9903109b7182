"""The FUSE operations of slowfs: a folder passed through, with faults put in front.

libfuse calls these from many threads at once; ``time.sleep`` gives the interpreter lock away, so
concurrent requests sleep concurrently and their callers sleep in the kernel.
"""

# Names come from the kernel as text and go straight to the system call: no Path in between.
# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH115, PTH208, PTH211
from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import mfusepy

from tests.labs.slowfs_faults import Faults
from tests.labs.slowfs_xattrs import Xattrs

STAT_FIELDS = (
    "st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks", "st_ino", "st_rdev",
)  # fmt: skip
STAT_TIMES = {"st_atime": "st_atime_ns", "st_mtime": "st_mtime_ns", "st_ctime": "st_ctime_ns"}
STATFS_FIELDS = (
    "f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail",
    "f_namemax",
)  # fmt: skip
# The kernel sends explicit offsets and does the appending and the alignment itself.
DROPPED_FLAGS = os.O_APPEND | os.O_DIRECT | os.O_NOFOLLOW
IN_FLIGHT = 64
"""Cached reads the kernel may have under way; its default of 12 would serialise readers."""


class SlowOperations(mfusepy.Operations):  # type: ignore[misc, unused-ignore]
    """One backing folder; every path below comes in as ``/name``."""

    use_ns = True

    def __init__(self, backing: Path, faults: Faults) -> None:
        self._backing = os.fspath(backing)
        self._faults = faults
        self._xattrs = Xattrs(faults)

    def init_with_config(self, conn_info: Any, config_3: Any) -> None:
        """Let many cached reads be under way at once."""
        conn_info.max_background = IN_FLIGHT
        conn_info.congestion_threshold = IN_FLIGHT

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        """stat; an evicted file has its size but none or next to none of its blocks."""
        self._faults.enter("stat", path)
        found = os.fstat(fh) if fh is not None else os.lstat(self._real(path))
        self._faults.delay("stat", path)
        attributes = {name: getattr(found, name) for name in STAT_FIELDS}
        attributes |= {name: getattr(found, source) for name, source in STAT_TIMES.items()}
        if self._faults.is_evicted(path):
            attributes["st_blocks"] = self._faults.settings.evicted_blocks
        return attributes

    def open(self, path: str, flags: int) -> int:
        """The handle is a descriptor of the backing file."""
        self._faults.enter("open", path)
        self._faults.delay("open", path)
        return os.open(self._real(path), flags & ~DROPPED_FLAGS)

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        """Owned by the caller, as on any file system."""
        self._faults.enter("open", path)
        self._faults.check_space()
        self._faults.delay("open", path)
        flags = (fi if fi is not None else os.O_RDWR) & ~DROPPED_FLAGS
        descriptor = os.open(self._real(path), flags | os.O_CREAT, mode)
        self._give_to_caller(path)
        return descriptor

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Reading past the end costs nothing: a client knows the size."""
        self._faults.enter("read", path)
        data = os.pread(fh, size, offset)
        if data:
            self._faults.delay("read", path, len(data))
        return data

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """Synchronous for the caller: there is no write-back cache."""
        self._faults.enter("write", path)
        self._faults.check_space()
        self._faults.delay("write", path, len(data))
        return os.pwrite(fh, data, offset)

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        """The delay stands for the server's; the backing file is not forced out."""
        self._faults.enter("fsync", path)
        self._faults.delay("fsync", path)
        return 0

    def readdir(self, path: str, fh: int) -> list[str]:
        """Names, with the two dots."""
        self._faults.enter("list", path)
        names = os.listdir(self._real(path))
        self._faults.delay("list", path)
        return [".", "..", *names]

    def statfs(self, path: str) -> dict[str, int]:
        """A full file system says so here too."""
        self._faults.enter("statfs", path)
        found = os.statvfs(self._real(path))
        self._faults.delay("statfs", path)
        answer = {name: getattr(found, name) for name in STATFS_FIELDS}
        if self._faults.settings.no_space:
            answer |= {"f_bfree": 0, "f_bavail": 0}
        return answer

    def release(self, path: str, fh: int) -> int:
        """Close."""
        os.close(fh)
        return 0

    def flush(self, path: str, fh: int) -> int:
        """Nothing is buffered here, but a close may hang."""
        self._faults.enter("flush", path)
        return 0

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        """By descriptor where there is one."""
        os.truncate(fh if fh is not None else self._real(path), length)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        """Owned by the caller."""
        self._faults.check_space()
        os.mkdir(self._real(path), mode)
        self._give_to_caller(path)
        return 0

    def rmdir(self, path: str) -> int:
        """Remove a folder."""
        os.rmdir(self._real(path))
        self._xattrs.forget(path)
        return 0

    def unlink(self, path: str) -> int:
        """Remove a file."""
        os.unlink(self._real(path))
        self._xattrs.forget(path)
        return 0

    def rename(self, old: str, new: str) -> int:
        """Attributes follow."""
        os.rename(self._real(old), self._real(new))
        self._xattrs.move(old, new)
        return 0

    def link(self, target: str, source: str) -> int:
        """A second name `target` for `source`."""
        os.link(self._real(source), self._real(target))
        return 0

    def symlink(self, target: str, source: str) -> int:
        """The text of a link is not looked at."""
        os.symlink(source, self._real(target))
        return 0

    def readlink(self, path: str) -> str:
        """The text of the link."""
        return os.readlink(self._real(path))

    def chmod(self, path: str, mode: int) -> int:
        """Permission bits."""
        os.chmod(self._real(path), mode)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        """-1 leaves one as it is."""
        os.chown(self._real(path), uid, gid, follow_symlinks=False)
        return 0

    def utimens(self, path: str, times: Any = None) -> int:
        """Nanoseconds, or now."""
        os.utime(self._real(path), ns=times)
        return 0

    def getxattr(self, path: str, name: str, position: int = 0) -> bytes:
        """Never delayed, so that the control attributes answer."""
        return self._xattrs.get(path, name)

    def listxattr(self, path: str) -> list[str]:
        """Names."""
        return self._xattrs.names(path)

    def setxattr(self, path: str, name: str, value: bytes, options: int, position: int = 0) -> int:
        """Any name space the kernel lets through."""
        self._xattrs.put(path, name, value)
        return 0

    def removexattr(self, path: str, name: str) -> int:
        """ENODATA where there is none."""
        self._xattrs.remove(path, name)
        return 0

    def _real(self, path: str) -> str:
        return self._backing + path

    def _give_to_caller(self, path: str) -> None:
        uid, gid, _ = mfusepy.fuse_get_context()
        with contextlib.suppress(PermissionError):
            os.chown(self._real(path), uid, gid, follow_symlinks=False)
