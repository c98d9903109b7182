"""Reads on in the file that a job's process writes its output to. Runs in a child (host/probe.py).

The file may lie on a mount that hangs, so every call here may. And it was chosen by the job: a
process can make anything its standard output that it can open, and whoever reads it as root reads
for that user. So the file is opened with the rights of the process itself, by way of its own
descriptor: no name is looked up, no path can be swapped, and what the user may not read stays
unread. Nothing is written, not even the time of access where the file system lets us choose.
"""

from __future__ import annotations

import binascii
import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence

from slurm_io.host.pidstat import parse_stat

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PIN = os.O_PATH | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_STAT_BYTES = 2048

Rights = tuple[int, int, Sequence[int]]
"""uid, gid and supplementary groups."""

Known = tuple[int, int, int]
"""Device and inode of the file, and up to which byte it was read."""

Piece = tuple[int, int, int, int, str]
"""Device, inode, size, offset of the first byte read, bytes in base64."""


def read_descriptor(
    proc_root: str,
    pid: int,
    starttime: int,
    descriptor: int,
    rights: Rights | None,
    known: Known | None,
    limit_bytes: int,
) -> Piece:
    """The newest bytes of the file behind a descriptor of a process.

    From where `known` ends, when it is the same file and no shorter than that; from the start of
    any other. At most the last `limit_bytes` of it. `rights`: whom to become (None = stay). Raises
    OSError: the process is gone, it is no regular file, or may not be read.
    """
    with _opened(f"{proc_root}/{pid}", _FOLDER) as folder:
        _check_starttime(folder, starttime)
        with _opened(f"fd/{descriptor}", _PIN, folder) as pinned, _becoming(rights):
            return _read_pinned(pinned, known, limit_bytes)


def read_path(path: str, rights: Rights | None, known: Known, limit_bytes: int) -> Piece:
    """As :func:`read_descriptor` when nobody holds the file any more: by its name, and only if
    that still is the very same file (else OSError)."""
    with _becoming(rights), _opened(path, _PIN | os.O_NOFOLLOW) as pinned:
        facts = os.fstat(pinned)
        if (facts.st_dev, facts.st_ino) != tuple(known[:2]):
            raise OSError(errno.ENOENT, "another file has its name now")
        return _read_pinned(pinned, known, limit_bytes)


def _read_pinned(pinned: int, known: Known | None, limit_bytes: int) -> Piece:
    # Through its descriptor an opened path is opened again for reading: it stays the same file.
    if not stat.S_ISREG(os.fstat(pinned).st_mode):
        raise OSError(errno.EINVAL, "no regular file")
    with _opened_for_reading(f"/proc/self/fd/{pinned}") as file:
        facts = os.fstat(file)
        device, inode, size = facts.st_dev, facts.st_ino, facts.st_size
        is_same = known is not None and (device, inode) == tuple(known[:2])
        start = known[2] if known is not None and is_same and known[2] <= size else 0
        start = max(start, size - limit_bytes)
        data = os.pread(file, limit_bytes, start) if size > start else b""
    return device, inode, size, start, binascii.b2a_base64(data, newline=False).decode()


def _check_starttime(folder: int, starttime: int) -> None:
    with _opened("stat", os.O_RDONLY | os.O_CLOEXEC, folder) as file:
        found = parse_stat(os.read(file, _STAT_BYTES))
    if found is None or found.starttime != starttime:
        raise OSError(errno.ESRCH, "the process has ended")


@contextlib.contextmanager
def _opened(path: str, flags: int, folder: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, flags, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _opened_for_reading(path: str) -> Iterator[int]:
    try:
        descriptor = os.open(path, _READ | os.O_NOATIME)
    except PermissionError:  # only the owner may leave the time of access alone
        descriptor = os.open(path, _READ)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _becoming(rights: Rights | None) -> Iterator[None]:
    """Have another user's rights for a while. The real user stays ours: the other can neither
    signal nor trace this process. Whoever cannot get back must not go on."""
    if rights is None:
        yield
        return
    uid, gid, groups = rights
    own = os.geteuid(), os.getegid(), os.getgroups()
    os.setgroups(groups)
    os.setegid(gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        try:
            os.seteuid(own[0])
            os.setegid(own[1])
            os.setgroups(own[2])
        except OSError:
            os._exit(1)
