"""Start a process that outlives a Slurm hook.

slurmd waits until nobody holds the hook's stdout, then kills its process group: a child must be
in a session of its own with none of the inherited descriptors. Where systemd runs, a transient
unit is better still: it is not charged to slurmd and survives its restart.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence

SYSTEMD_MARK = "/run/systemd/system"
SYSTEMD_RUN = "/usr/bin/systemd-run"
SYSTEMD_WAIT_S = 1.0
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


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
