"""Pins one file below a folder with an O_PATH descriptor: nothing is opened, nothing recalled.

A link swapped in between leads out of the folder at worst, which is seen on the descriptor itself
and refused: whatever is asked afterwards is asked of the file that was pinned.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from slurm_io.filesystems.residency.base import Seen


class Root(NamedTuple):
    """The folder all paths are relative to: open O_PATH, its real path, its owner and device."""

    descriptor: int
    real: str
    owner_uid: int
    device: int


class NotPinned(Exception):
    """The text says why, in words that hold no path."""


def open_root(path: str) -> Root:
    """Raises OSError. The caller closes the descriptor."""
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        return Root(descriptor, _real_path(descriptor), found.st_uid, found.st_dev)
    except OSError:
        os.close(descriptor)
        raise


def pin(root: Root, path: str) -> tuple[int, os.stat_result, Seen]:
    """Descriptor (to be closed), stat and facts of a regular file. Raises NotPinned."""
    if not path or path[0] == "/" or "\0" in path or ".." in path.split("/"):
        raise NotPinned("not a path below the folder")
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC, dir_fd=root.descriptor)
    except OSError as error:
        raise NotPinned(error.strerror or str(error)) from None
    try:
        found = os.fstat(descriptor)
        return descriptor, found, _facts(root, path, descriptor, found)
    except OSError as error:
        os.close(descriptor)
        raise NotPinned(error.strerror or str(error)) from None
    except NotPinned:
        os.close(descriptor)
        raise


def descriptor_path(descriptor: int) -> str:
    """A path of the pinned file itself, whatever happens to its name."""
    return f"/proc/self/fd/{descriptor}"


def _facts(root: Root, path: str, descriptor: int, found: os.stat_result) -> Seen:
    if not stat.S_ISREG(found.st_mode):
        raise NotPinned("not a regular file")
    full = _real_path(descriptor)
    if not full.startswith(root.real.rstrip("/") + "/") and not _may_leave(root, found):
        raise NotPinned("a link leads out of the folder")
    return Seen(
        path=path,
        full=full,
        size_bytes=found.st_size,
        blocks=found.st_blocks,
        changed_s=max(found.st_mtime, found.st_ctime),
        owner_uid=found.st_uid,
    )


def _may_leave(root: Root, found: os.stat_result) -> bool:
    """A user's dataset may consist of links to a cache beside it; root follows nobody's links."""
    return os.geteuid() != 0 and found.st_dev == root.device


def _real_path(descriptor: int) -> str:
    return os.readlink(descriptor_path(descriptor))
