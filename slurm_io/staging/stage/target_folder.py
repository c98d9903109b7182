"""The dataset's folder at its path, opened or made where users may own part of the way to it.

Root writes and removes below what is opened here. A link that a user put on the way (in a scratch
folder that all may write to, before the dataset was there) would lead it to any folder of the
system, so for root a link counts only when it is root's own. The walk goes by descriptors: what is
swapped meanwhile is looked at as it is then.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from slurm_io.staging.beneath import Folder

MODE = 0o755
_MOST_LINKS = 40  # as the kernel
# O_PATH: to pass through a folder needs no right to list it.
_PASS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def open_target(path: str, make: bool = False) -> Folder:
    """The folder; with `make`, what is missing of the way is made.

    Raises OSError: FileNotFoundError, or EPERM for a link of somebody else's when we are root.
    """
    todo = _names(os.path.join(os.getcwd(), path))
    here, followed = os.open("/", _PASS), 0
    try:
        while todo:
            name = todo.pop()
            found = _entered(here, name, make)
            if isinstance(found, int):
                os.close(here)
                here = found
                continue
            followed += 1
            if followed > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            todo += _names(found)
            if found.startswith("/"):
                os.close(here)
                here = os.open("/", _PASS)
        return Folder(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here))
    finally:
        os.close(here)


def _names(path: str) -> list[str]:
    """The last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _entered(above: int, name: str, make: bool) -> int | str:
    """Descriptor of a folder, or the text of a link. Raises OSError."""
    try:
        return os.open(name, _PASS, dir_fd=above)
    except FileNotFoundError:
        if not make:
            raise
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, MODE, dir_fd=above)
        return os.open(name, _PASS, dir_fd=above)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
    link = os.open(name, _LINK, dir_fd=above)
    try:
        return _text_of(link, name)
    finally:
        os.close(link)


def _text_of(link: int, name: str) -> str:
    facts = os.fstat(link)
    if not stat.S_ISLNK(facts.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if os.geteuid() == 0 and facts.st_uid != 0:
        raise PermissionError(
            errno.EPERM,
            f"{name!a} on the way to it is a link of uid {facts.st_uid}, which root does not "
            "follow: give the path that it stands for",
        )
    return os.readlink("", dir_fd=link)
