"""Where a path leads as far as root can follow it without stepping on a user's ground.

Whoever may write in a folder decides what lies in it: a link to a dead server, a FUSE mount of his
own that never answers. A check that runs as root follows an admin's path up to there and no
further; what lies behind is for a check that runs as the user.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection

from slurm_io.filesystems.mounts import parse_line
from slurm_io.host.read import read_optional_text

_MOST_LINKS = 40
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def users_mount_points(proc_root: str = "/proc") -> frozenset[str]:
    """Mount points of users' own file systems, as this process sees them."""
    text = read_optional_text(f"{proc_root}/self/mountinfo", 64 << 20) or ""
    lines = (line for line in text.split("\n") if "user_id=" in line)
    mounts = (mount for mount in map(parse_line, lines) if mount is not None)
    return frozenset(mount.mount_point for mount in mounts if mount.made_by_user)


def admins_path(path: str, uid: int, closed: Collection[str] = ()) -> str:
    """`path` without links, cut where what follows is in a user's hand.

    That is: what belongs to user `uid`, what lies in a folder that others may write to (with the
    sticky bit, only what is not root's), and the mount points `closed`. What is not there cuts
    nothing. May hang where an admin's own mount does.
    """
    rest = path.split("/")[::-1]
    done, links = "/", 0
    while rest:
        name = rest.pop()
        if name == "..":
            done = done.rpartition("/")[0] or "/"
        if name in ("", ".", ".."):
            continue
        here = f"{done.rstrip('/')}/{name}"
        if here in closed:
            return done
        try:
            folder, found = os.lstat(done), os.lstat(here)
        except OSError:
            return os.path.normpath("/".join([here, *reversed(rest)]))
        if _is_users(folder, found, uid) or links > _MOST_LINKS:
            return done
        if stat.S_ISLNK(found.st_mode):
            links += 1
            target = os.readlink(here)  # noqa: PTH115 - pathlib is 3 ms of a prolog
            rest += target.split("/")[::-1]
            done = "/" if target.startswith("/") else done
        else:
            done = here
    return done


def _is_users(folder: os.stat_result, found: os.stat_result, uid: int) -> bool:
    if folder.st_mode & _OTHERS_WRITE and (found.st_uid or not folder.st_mode & stat.S_ISVTX):
        return True
    return found.st_uid == uid != 0
