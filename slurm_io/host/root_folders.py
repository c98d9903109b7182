"""Folders that root builds where other users may be about: no symbolic link is ever followed.

Every folder on the way must belong to root (or to the process's own user) and must not be writable
by others; a world-writable parent is accepted only with the sticky bit (/tmp), because there the
child's own check still decides. Work goes through descriptors, so a later swap changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from slurm_io.errors import HostError

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def trusted_folder(path: str, create: bool = False, mode: int = 0o755) -> Iterator[int]:
    """Descriptor of a folder that nobody but root can change.

    Links in `path` itself are resolved first (/var/run); what they lead to is then walked without
    following any. With `create`, missing components are made with `mode`. Raises HostError.
    """
    descriptor = os.open("/", _OPEN)
    try:
        for name in os.path.realpath(path).split("/")[1:]:
            if name:
                below = child_folder(descriptor, name, path, mode if create else None)
                os.close(descriptor)
                descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def child_folder(parent: int, name: str, label: str, mode: int | None = None) -> int:
    """Descriptor of one folder inside an open one; made with `mode` when missing and given.

    `name` must be a plain name. `label` is the path that errors speak of. Raises HostError.
    """
    if not is_plain_name(name):
        raise HostError(f"{label}: {name!a} cannot be a folder's name")
    try:
        if mode is not None:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, mode, dir_fd=parent)
        descriptor = os.open(name, _OPEN, dir_fd=parent)
    except OSError as error:
        raise HostError(f"{label}: folder {name!a}: {error.strerror}") from error
    try:
        _check_owner(os.fstat(descriptor), label, name)
    except HostError:
        os.close(descriptor)
        raise
    return descriptor


def is_plain_name(name: str) -> bool:
    """Whether this can be one component of a path and nothing else."""
    return bool(name) and name not in (".", "..") and "/" not in name and name.isprintable()


def write_file(folder: int, name: str, data: bytes, mode: int = 0o644) -> None:
    """Write a file by rename inside an open folder; an existing entry is replaced, never followed.

    Raises HostError.
    """
    temporary = f".{name}.{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(temporary, flags, mode, dir_fd=folder)
        try:
            os.fchmod(descriptor, mode)
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise HostError(f"cannot write {name!a}: {error.strerror}") from error


def read_file(folder: int, name: str, max_bytes: int = 1 << 20) -> bytes | None:
    """Content of a regular file inside an open folder; None when there is none.

    Raises HostError for anything that is no regular file or longer than `max_bytes`.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HostError(f"cannot read {name!a}: {error.strerror}") from error
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > max_bytes:
            raise HostError(f"cannot read {name!a}: not a regular file of at most {max_bytes} B")
        return os.read(descriptor, max_bytes)
    finally:
        os.close(descriptor)


def _check_owner(facts: os.stat_result, label: str, name: str) -> None:
    if facts.st_uid not in (0, os.geteuid()):
        raise HostError(f"{label}: folder {name!a} belongs to uid {facts.st_uid}, not to root")
    others_write = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if others_write and not facts.st_mode & stat.S_ISVTX:
        raise HostError(f"{label}: folder {name!a} can be written by others: chmod go-w it")
