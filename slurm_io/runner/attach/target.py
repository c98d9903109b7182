"""The process that ``--pid`` names: whether it can be watched, and what it says of itself.

Everything read here is in the hands of the process's owner, who may not be who attaches.
"""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_io.errors import HostError, UsageError
from slurm_io.host.pidstat import parse_stat
from slurm_io.host.read import read_bytes, read_optional_line, read_optional_text
from slurm_io.host.same_process import starttime_of

_PF_KTHREAD = 0x00200000  # include/linux/sched.h; field 9 of stat
_ENVIRON_LIMIT_BYTES = 4 * 1024 * 1024
_MOST_LOOKED_AT = 100_000


@dataclass(frozen=True)
class Target:
    """One living process, by (pid, starttime). `inner_pid`: its number inside its container."""

    pid: int
    starttime: int
    uid: int
    user: str
    comm: str
    environ: Mapping[str, str]
    work_dir: str | None
    inner_pid: int | None = None


def find_target(pid: int, proc_root: Path = Path("/proc")) -> Target:
    """The process `pid`.

    Raises:
        UsageError: a process that must not or cannot be meant: this command or one above it, a
            kernel thread, a thread.
        HostError: no such process, or one that only another user may look at.
    """
    raw = read_bytes_or_nothing(proc_root / str(pid) / "stat")
    stat = parse_stat(raw)
    if stat is None:
        raise HostError(_no_such_process(pid, proc_root))
    named = f"process {pid} ({shown(stat.comm)})"
    if stat.state in "ZXx":
        raise HostError(f"{named} has ended: only its exit code is left")
    group = _field(pid, "Tgid", proc_root)
    if group is not None and group != pid:
        raise UsageError(f"{pid} is a thread of process {group}: give --pid {group}")
    if _is_kernel_thread(raw):
        raise UsageError(f"{named} is a kernel thread: give a training process")
    if pid in own_ancestors():
        raise UsageError(
            f"{named} is this command or stands above it, so it would watch itself: give the "
            "training process"
        )
    uid = _owner(pid, proc_root)
    refuse_without_rights(pid, uid, named, proc_root)
    inner = inner_pid(pid, proc_root)
    target = Target(
        pid=pid,
        starttime=stat.starttime,
        uid=uid,
        user=user_name(uid),
        comm=stat.comm,
        environ=environ_of(pid, proc_root),
        work_dir=_work_dir(pid, proc_root),
        inner_pid=inner if inner != pid else None,
    )
    if starttime_of(pid, str(proc_root)) != target.starttime:  # it ended while we read
        raise HostError(f"process {pid} has just ended")
    return target


def refuse_without_rights(pid: int, uid: int, named: str, proc_root: Path) -> None:
    """HostError when the kernel would not tell us what the process waits for."""
    if os.geteuid() not in (0, uid):
        owner = user_name(uid)
        others = f"{owner} or as root" if uid != 0 else owner
        raise HostError(f"{named} belongs to {owner}: attach as {others}")
    try:
        with open(proc_root / str(pid) / "environ", "rb") as file:
            file.read(1)
    except ProcessLookupError:
        raise HostError(f"process {pid} has just ended") from None
    except PermissionError as error:
        raise HostError(
            f"{named} is closed to you by the kernel (a program with privileges, or one that made "
            "itself undumpable): attach as root"
        ) from error
    except OSError as error:
        raise HostError(f"cannot read process {pid}: {error.strerror}") from error


def yama_notice(proc_root: Path = Path("/proc")) -> str | None:
    """What an ordinary user will not see here, and what to do; None when nothing is in the way."""
    scope = read_optional_line(proc_root / "sys/kernel/yama/ptrace_scope")
    if scope in (None, "0") or os.geteuid() == 0 and scope != "3":
        return None
    return (
        f"this kernel (Yama mode {scope}) shows what a process waits for only to "
        f"{'nobody' if scope == '3' else 'root and to ancestors'}: waits will be missing in the "
        "report; attach as root, or start the job under `slurm-io run`"
    )


def own_ancestors() -> set[int]:
    """This process and all above it, up to 1."""
    found, pid = {1}, os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        stat = parse_stat(read_bytes_or_nothing(Path(f"/proc/{pid}/stat")))
        pid = stat.ppid if stat is not None else 0
    return found


def environ_of(pid: int, proc_root: Path = Path("/proc")) -> dict[str, str]:
    """The environment a process was started with; empty when it cannot be read."""
    raw = read_bytes_or_nothing(proc_root / str(pid) / "environ", _ENVIRON_LIMIT_BYTES)
    pairs = (os.fsdecode(entry).partition("=") for entry in raw.split(b"\0"))
    return {name: value for name, sep, value in pairs if sep}


def user_name(uid: int) -> str:
    """As people know the user; the number where no account has it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def read_bytes_or_nothing(path: Path, limit_bytes: int = 65536) -> bytes:
    """The file; empty when it cannot be read."""
    with contextlib.suppress(HostError):
        return read_bytes(path, limit_bytes)
    return b""


def shown(text: str) -> str:
    """Text of a stranger's that may go to a terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _is_kernel_thread(raw_stat: bytes) -> bool:
    flags = raw_stat.rpartition(b")")[2].split()[6]
    return bool(int(flags) & _PF_KTHREAD)


def _owner(pid: int, proc_root: Path) -> int:
    try:
        return (proc_root / str(pid)).stat().st_uid
    except OSError:
        raise HostError(f"process {pid} has just ended") from None


def _work_dir(pid: int, proc_root: Path) -> str | None:
    """By name only: the folder may lie on a mount that hangs."""
    try:
        return str((proc_root / str(pid) / "cwd").readlink())
    except OSError:
        return None


def _no_such_process(pid: int, proc_root: Path) -> str:
    outer = _pid_of_inner(pid, proc_root)
    if outer is not None:
        return (
            f"there is no process {pid} on this node; the one that is {pid} inside a container is "
            f"{outer} here: give --pid {outer}"
        )
    return f"there is no process {pid} on this node (here: {os.uname().nodename})"


def _pid_of_inner(pid: int, proc_root: Path) -> int | None:
    """A process that has this number in a pid namespace below ours, where exactly one has."""
    try:
        names = [entry.name for entry in proc_root.iterdir() if entry.name.isdecimal()]
    except OSError:
        return None
    found = [
        int(name) for name in names[:_MOST_LOOKED_AT] if inner_pid(int(name), proc_root) == pid
    ]
    return found[0] if len(found) == 1 else None


def inner_pid(pid: int, proc_root: Path = Path("/proc")) -> int | None:
    """The process's number in the innermost pid namespace it lives in."""
    return _field(pid, "NSpid", proc_root)


def _field(pid: int, name: str, proc_root: Path) -> int | None:
    """Last number of a line of /proc/PID/status."""
    text = read_optional_text(proc_root / str(pid) / "status", 65536) or ""
    for line in text.splitlines():
        label, _, rest = line.partition(":")
        words = rest.split()
        if label == name and words and words[-1].isdecimal():
            return int(words[-1])
    return None
