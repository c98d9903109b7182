"""The child's side of one check: become whom the check is to run as, call it, hand back plain data.

A check about the user's data runs as the user, so that a swapped path, a link to /proc/1 or a FIFO
gets the user nothing that he could not have had himself.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
from typing import Any

from slurm_io.errors import HostError
from slurm_io.prolog.check_plan import PlannedCheck

NO_GROUP = 65534


def call_check(planned: PlannedCheck, began_s: float) -> dict[str, Any]:
    """``{results, cpu_s, left}`` as JSON takes it; `left` are pids of children that do not die.

    `began_s` (monotonic) is when the round of checks began. Other checks of the same identity may
    have run in this process before. Raises HostError when the user cannot be become.
    """
    used_s, left = _used_s(), set(_left_pids())
    _be_the_first_to_die()
    context = planned.context_with_budget(time.monotonic() - began_s)
    if planned.check.identity == "user" and os.geteuid() == 0 and context.uid != 0:
        keep_imports_working()
        become(context.uid, context.gid)
    results = [each.to_dict() for each in planned.check.run(context)]
    new = [pid for pid in _left_pids() if pid not in left]
    return {"results": results, "cpu_s": _used_s() - used_s, "left": new}


def _used_s() -> float:
    """CPU of this process and its children so far."""
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN)  # os.times counts steps of 10 ms
    return time.process_time() + of_children.ru_utime + of_children.ru_stime


def _be_the_first_to_die() -> None:
    """Before memory runs out for anybody else: slurmd may have had the kernel spare it, and what it
    starts inherits that."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _left_pids() -> list[int]:
    """Children that were left in the kernel, for the parent to remember: nobody else knows them."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return []
    from slurm_io.host.late_child import children_of

    return list(children_of(os.getpid()))


def become(uid: int, gid: int) -> None:
    """Be this user with this user's groups for good; nothing when we are not root already.

    Without a line in the password file the user has no groups but the job's. A gid of 0 is what
    an environment without SLURM_JOB_GID reads as: then the password file's counts, or nobody's.
    """
    if os.geteuid() != 0 or uid == 0:
        return
    name, own_gid = _account(uid)
    gid = gid or own_gid
    groups = os.getgrouplist(name, gid) if name is not None else [gid]
    try:
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise HostError(f"cannot become uid {uid}: {error.strerror}") from error
    if os.getresuid() != (uid,) * 3 or os.getresgid() != (gid,) * 3 or _can_be_root_again():
        raise HostError(f"did not become uid {uid} for good: not going on")


def keep_imports_working() -> None:
    """Have modules found through descriptors opened now, as root.

    A Python below /root or another closed folder is root's to enter and not the user's, who yet has
    to load what a check imports on its way. A descriptor of the folder leads past the closed door;
    what lies behind it must still be readable for all.
    """
    opened = {path: _through_descriptor(path) for path in sys.path if os.path.isdir(path)}
    sys.path[:] = [opened.get(path, path) for path in sys.path]
    for module in list(sys.modules.values()):
        folders = getattr(module, "__path__", None)
        if isinstance(folders, list):
            folders[:] = [_moved(folder, opened) for folder in folders]


def _through_descriptor(path: str) -> str:
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return f"/proc/self/fd/{descriptor}"


def _moved(folder: str, opened: dict[str, str]) -> str:
    for path, through in opened.items():
        if folder.startswith(f"{path}/"):
            return through + folder[len(path) :]
    return folder


def _account(uid: int) -> tuple[str | None, int]:
    import pwd

    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return None, NO_GROUP
    return entry.pw_name, entry.pw_gid


def _can_be_root_again() -> bool:
    try:
        os.setresuid(0, 0, 0)
    except PermissionError:
        return False
    return True
