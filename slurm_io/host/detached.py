"""Start a process that outlives a Slurm hook; cut the ties of a forked one with its parent.

slurmd waits until nobody holds the hook's stdout, then kills its process group: a child must be
in a session of its own with none of the inherited descriptors. Where systemd runs, a transient
unit is better still: it is not charged to slurmd and survives its restart.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

SYSTEMD_MARK = "/run/systemd/system"
SYSTEMD_RUN = "/usr/bin/systemd-run"
SYSTEMD_WAIT_S = 1.0
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_DESCRIPTORS = "/proc/self/fd/"


def minimal_environment(source: Mapping[str, str]) -> dict[str, str]:
    """PATH, a locale, and of the hook's environment only what names the cluster and the node."""
    kept = {name: source[name] for name in ("SLURM_CONF", "SLURMD_NODENAME") if name in source}
    return {"PATH": PATH, "LC_ALL": "C.UTF-8", **kept}


def spawn(argv: Sequence[str], environment: Mapping[str, str], log_path: str = os.devnull) -> int:
    """Start `argv` in a new session, stdin empty, output in `log_path`; its pid. Raises OSError."""
    _keep_descriptors_from_children()
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log_path, append, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawn(
        argv[0],
        list(argv),
        dict(environment),
        file_actions=actions,
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGALRM, signal.SIGTERM, signal.SIGPIPE, signal.SIGHUP, signal.SIGINT),
    )


def has_systemd() -> bool:
    """Whether this machine is run by systemd and can be asked for a unit."""
    return os.path.isdir(SYSTEMD_MARK) and os.access(SYSTEMD_RUN, os.X_OK)


def spawn_unit(
    unit: str, argv: Sequence[str], environment: Mapping[str, str], max_lifetime_s: float
) -> bool:
    """Start `argv` as a transient unit; False when systemd refuses or is silent for 1 s."""
    command = [
        SYSTEMD_RUN,
        f"--unit={unit}",
        "--collect",
        "--quiet",
        "--no-block",
        f"--property=RuntimeMaxSec={max_lifetime_s:.0f}",
        "--property=KillMode=mixed",
        *(f"--setenv={name}={value}" for name, value in environment.items()),
        "--",
        *argv,
    ]
    try:
        return _ended_well(spawn(command, environment), SYSTEMD_WAIT_S)
    except OSError:
        return False


def let_go(*needed: int) -> None:
    """A child left behind must hold neither the caller's descriptors (a prolog's stdout would keep
    slurmd waiting), nor its terminal, nor its folder, nor its signal handlers. Descriptors through
    which modules are found stay: the call may have to import something."""
    os.setsid()
    os.chdir("/")
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    kept = {*needed, *_import_descriptors()}
    for descriptor in _open_descriptors():
        if descriptor not in kept:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    # A file opened as number 2 would get what a C library has to complain of.
    with contextlib.suppress(OSError):
        while (null := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(null)


def _ended_well(pid: int, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return False


def _keep_descriptors_from_children() -> None:
    """slurmd may have left descriptors open in the hook beyond the three; no child gets one."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.set_inheritable(int(name), False)


def _import_descriptors() -> Iterable[int]:
    """N of each ``/proc/self/fd/N`` on the module path (prolog/check_child.py puts them there)."""
    numbers = (
        path.removeprefix(_DESCRIPTORS) for path in sys.path if path.startswith(_DESCRIPTORS)
    )
    return [int(number) for number in numbers if number.isdecimal()]


def _open_descriptors() -> Iterable[int]:
    # Not os.closerange: where the C library lacks close_range (before glibc 2.34) it tries every
    # number up to the limit, which can be a million.
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return range(1024)
