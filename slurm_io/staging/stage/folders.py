"""Changes below one folder by relative path; no symbolic link is followed on the way."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from slurm_io.staging.beneath import Folder

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def entered(tree: Folder, raw_folder: bytes, mode: int = 0o755) -> int:
    """Descriptor of a folder below, made where missing; the tree's, valid until its next call.

    Raises OSError (ELOOP, ENOTDIR: a link or a file is in the way).
    """
    try:
        return tree.folder_fd(raw_folder)
    except FileNotFoundError:
        make_folders(tree.fd, raw_folder, mode)
    return tree.folder_fd(raw_folder)


def make_folders(root_fd: int, raw_folder: bytes, mode: int) -> None:
    """Make a folder and those above it, as far as they are missing. Raises OSError."""
    here = os.dup(root_fd)
    try:
        for name in raw_folder.split(b"/"):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, mode, dir_fd=here)
            below = os.open(name, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
    finally:
        os.close(here)


def remove(tree: Folder, raw: bytes) -> int:
    """Remove an entry and all below it; bytes given back. What is gone already is fine.

    Raises OSError.
    """
    folder, _, name = raw.rpartition(b"/")
    try:
        return remove_entry(tree.folder_fd(folder), name)
    except FileNotFoundError:
        return 0


def remove_entry(folder_fd: int, name: bytes) -> int:
    """As :func:`remove`, in an open folder. What is mounted below stays."""
    try:
        return _removed(folder_fd, name)
    except RecursionError:  # a user can nest folders as deep as he likes
        raise OSError(errno.ELOOP, "its folders are nested too deep: rm -r it") from None


def _removed(folder_fd: int, name: bytes) -> int:
    found = os.lstat(name, dir_fd=folder_fd)
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=folder_fd)
        return found.st_blocks * 512 if found.st_nlink == 1 else 0
    freed = 0
    below = os.open(name, _FOLDER, dir_fd=folder_fd)
    try:
        if os.fstat(below).st_dev != os.fstat(folder_fd).st_dev:
            raise OSError(errno.EXDEV, "another file system is mounted there")
        for each in map(os.fsencode, os.listdir(below)):
            freed += _removed(below, each)
    finally:
        os.close(below)
    os.rmdir(name, dir_fd=folder_fd)
    return freed
