"""Which files the job's processes write their output to, and with whose rights to read them.

Links are only read, never followed: following one may hang.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_io.collectors.base import Member
from slurm_io.host.job_output import Known, Rights, read_descriptor
from slurm_io.host.probe import Call
from slurm_io.host.read import read_optional_text

_STANDARD = (1, 2)
_MOST_FILES = 16
_MOST_MEMBERS = 512
_MOST_GROUPS = 65536
_MOST_NAME_CHARACTERS = 256
_STATUS_BYTES = 1024 * 1024
_NO_FILES = ("/dev/", "/proc/", "/sys/", "/memfd:")
_TERMINALS = ("/dev/pts/", "/dev/tty", "/dev/console")


@dataclass(frozen=True)
class Output:
    """One file as one process has it open. `rights`: whose to read it with; None = our own."""

    path: str
    pid: int
    starttime: int
    descriptor: int
    rights: Rights | None

    def call(self, proc_root: Path, known: Known | None, limit_bytes: int) -> Call:
        """What the child is to do."""
        return read_descriptor, (
            os.fspath(proc_root), self.pid, self.starttime, self.descriptor, self.rights, known,
            limit_bytes,
        )  # fmt: skip

    def is_held(self, proc_root: Path) -> bool:
        """Whether the process still has it open under that name."""
        return _link(proc_root, self.pid, self.descriptor) == self.path


@dataclass(frozen=True)
class Found:
    """`left_alone`: kind of what is no file -> how many descriptors lead there."""

    outputs: tuple[Output, ...]
    left_alone: dict[str, int]


def find_outputs(proc_root: Path, members: Sequence[Member], uid: int | None) -> Found:
    """Files behind descriptors 1 and 2, 16 at most: of rank 0, of the other ranks from the last
    down, of all others. `uid`: the job's user; what runs as somebody else is left alone."""
    outputs: dict[str, Output] = {}
    left_alone: dict[str, int] = {}
    for member in _in_order(members)[:_MOST_MEMBERS]:
        for descriptor in _STANDARD:
            path = _link(proc_root, member.pid, descriptor)
            kind = kind_of(path)
            if path is None or kind is None or path in outputs:
                continue
            if kind != "file":
                left_alone[kind] = left_alone.get(kind, 0) + 1
            elif len(outputs) < _MOST_FILES:
                rights = rights_to_use(proc_root, member.pid, uid)
                if isinstance(rights, str):
                    left_alone[rights] = left_alone.get(rights, 0) + 1
                    continue
                outputs[path] = Output(path, member.pid, member.starttime, descriptor, rights)
    return Found(tuple(outputs.values()), left_alone)


def kind_of(path: str | None) -> str | None:
    """file | pipe | socket | terminal; None for what is closed and for /dev/null."""
    if path is None or path.startswith("/dev/null"):
        return None
    if path.startswith(_TERMINALS):
        return "terminal"
    if path.startswith("/") and not path.startswith(_NO_FILES):
        return "file"
    return "socket" if path.startswith("socket:") else "pipe"


def rights_to_use(proc_root: Path, pid: int, uid: int | None) -> Rights | None | str:
    """The process's own rights, when we are root and it is not; a text says why not to read.

    A process whose real, effective and saved user differ runs a set-uid program: what it may open
    is not its user's.
    """
    if os.geteuid() != 0:
        return None
    numbers = _numbers(read_optional_text(proc_root / str(pid) / "status", _STATUS_BYTES) or "")
    users, groups = numbers.get("Uid", []), numbers.get("Gid", [])
    if len(users) != 4 or len(groups) != 4:
        return "process that has ended"
    if len(set(users)) != 1 or (uid is not None and users[0] != uid):
        return "process of another user"
    if users[0] == 0:
        return None
    return users[0], groups[3], tuple(numbers.get("Groups", [])[:_MOST_GROUPS])


def _numbers(status: str) -> dict[str, list[int]]:
    found = {}
    for line in status.splitlines():
        name, _, values = line.partition(":")
        if name in ("Uid", "Gid", "Groups"):
            found[name] = [int(word) for word in values.split() if word.isdecimal()]
    return found


def _in_order(members: Sequence[Member]) -> list[Member]:
    """Most programs print on rank 0, Megatron on the last rank."""
    ranks = [member for member in members if member.role == "rank"]
    ranks.sort(key=lambda member: -1 if member.rank is None else member.rank)
    others = [member for member in members if member.role != "rank"]
    return [*ranks[:1], *ranks[:0:-1], *others]


def _link(proc_root: Path, pid: int, descriptor: int) -> str | None:
    try:
        return os.readlink(f"{proc_root}/{pid}/fd/{descriptor}")
    except OSError:
        return None


def shown_path(path: str) -> str:
    """As it goes into meta.json: the end of a long one, bytes that are no UTF-8 replaced."""
    safe = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return safe[-_MOST_NAME_CHARACTERS:]
