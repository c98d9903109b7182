"""Processes of users who have no job on this node: what an epilog failed to end."""

from __future__ import annotations

import pwd
from collections.abc import Iterable
from pathlib import Path

from slurm_io.host.read import read_optional_text
from slurm_io.slurm.listpids import EVERY_JOB, ask_listpids

_LISTED_MAX = 20
_NAME_CHARS = 64
_USUAL_UID_MIN = 1000
_NOBODY = 65534


def find_strays(node: str, timeout_s: float, root: str = "/") -> list[str]:
    """``USER PID NAME`` each, at most 20. Raises SlurmError when Slurm does not say whose jobs run.

    A user with a job here is not looked at further: that job's own epilog is still to come.
    """
    return strays_beside(ask_listpids(EVERY_JOB, node, timeout_s), root)


def strays_beside(job_pids: Iterable[int], root: str = "/") -> list[str]:
    """As :func:`find_strays`, with the processes of jobs given."""
    with_jobs = {_owner(root, pid) for pid in job_pids}
    least = _uid_min(root)
    found = []
    for pid in _pids(root):
        uid = _owner(root, pid)
        if uid is not None and least <= uid != _NOBODY and uid not in with_jobs:
            found.append(f"{_user(uid)} {pid} {_command(root, pid)}")
    return found[:_LISTED_MAX]


def _pids(root: str) -> list[int]:
    names = (each.name for each in Path(root, "proc").iterdir())
    return sorted(int(name) for name in names if name.isdecimal())


def _owner(root: str, pid: int) -> int | None:
    """None: it has ended, or runs in the kernel."""
    try:
        return Path(root, "proc", str(pid)).stat().st_uid
    except OSError:
        return None


def _command(root: str, pid: int) -> str:
    text = (read_optional_text(f"{root}/proc/{pid}/comm") or "?").strip()
    return "".join(each if each.isprintable() else "?" for each in text)[:_NAME_CHARS]


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _uid_min(root: str) -> int:
    """Where ordinary accounts begin at this site."""
    for line in (read_optional_text(f"{root}/etc/login.defs") or "").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "UID_MIN" and words[1].isdecimal():
            return int(words[1])
    return _USUAL_UID_MIN
