"""The daemons of the test cluster: what they need, how each starts, answers and stops.

Every path lies below one short folder, because a Unix socket's path may not exceed 107 bytes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

DEBIAN_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
OTHER_SLURM = os.environ.get("SLURM_IO_LAB_SLURM")
"""A folder with the commands and daemons of another Slurm than the machine's own."""
SBIN_PATH = f"{OTHER_SLURM}:{DEBIAN_PATH}" if OTHER_SLURM else DEBIAN_PATH
PROGRAMS = ("munged", "munge", "slurmctld", "slurmd", "sbatch", "scontrol", "sinfo", "squeue")
DATABASE_PROGRAMS = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db")


class ClusterError(AssertionError):
    """The cluster did not start or answer; the text ends with the tail of its logs."""


def missing_programs(dbd: bool = True) -> list[str]:
    """Programs the cluster needs and this machine lacks."""
    wanted = PROGRAMS + (DATABASE_PROGRAMS if dbd else ())
    return [name for name in wanted if shutil.which(name, path=SBIN_PATH) is None]


def is_debian() -> bool:
    """Whether the missing programs could be installed with apt-get."""
    return Path("/etc/debian_version").exists()


def program(name: str) -> str:
    """Absolute path of a program that :func:`missing_programs` found."""
    path = shutil.which(name, path=SBIN_PATH)
    if path is None:
        raise ClusterError(f"{name} is not installed: apt-get install slurm-wlm slurmdbd munge")
    return path


def slurm_version() -> tuple[int, int]:
    """Of the controller, e.g. (22, 5)."""
    done = run(["slurmctld", "-V"], {"PATH": SBIN_PATH})
    major, minor = done.stdout.split()[-1].split(".")[:2]
    return int(major), int(minor)


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def is_listening(port: int) -> bool:
    """Whether something accepts connections on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(check: Callable[[], bool], timeout_s: float, what: str, step_s: float = 0.1) -> None:
    """Poll `check`; ClusterError naming `what` when it is not true in time."""
    deadline = time.monotonic() + timeout_s
    while not check():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(step_s)


def run(
    argv: Sequence[str], env: dict[str, str], timeout_s: float = 30.0
) -> subprocess.CompletedProcess[str]:
    """One finished command, output as text; never raises on a non-zero exit."""
    return subprocess.run(
        [program(argv[0]), *argv[1:]],
        env=env,
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def spawn(argv: Sequence[str], env: dict[str, str], log: Path) -> int:
    """Start a daemon in a session of its own, its output in `log`; its pid."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            [program(argv[0]), *argv[1:]],
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    child.returncode = 0  # a daemon: nobody waits for it here, stop() ends it by its pid
    return child.pid


def is_running(pid: int) -> bool:
    """Whether this process exists and is no zombie; a zombie of ours is collected."""
    with contextlib.suppress(ChildProcessError, OSError):
        os.waitpid(pid, os.WNOHANG)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def stop(pid: int, grace_s: float = 5.0) -> None:
    """SIGTERM, then SIGKILL after `grace_s`."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while is_running(pid):
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            deadline += grace_s
        time.sleep(0.05)


def processes_naming(text: str) -> list[int]:
    """Processes whose command line or environment holds `text` (a path only we use)."""
    wanted = text.encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


@contextlib.contextmanager
def second_account(name: str = "sio-second") -> Iterator[str]:
    """Another ordinary account for jobs, removed afterwards when it was not there before."""
    made = subprocess.run(
        [program("useradd"), "--no-create-home", "--shell", "/bin/sh", name],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode not in (0, 9):  # 9: there is one of that name
        raise ClusterError(f"useradd {name}: {made.stderr}")
    try:
        yield name
    finally:
        if made.returncode == 0:
            subprocess.run([program("userdel"), name], capture_output=True, check=False)


def write_munge_key(path: Path) -> None:
    """A fresh random key, readable by its owner only, as munged insists."""
    path.touch(mode=0o600)
    path.write_bytes(secrets.token_bytes(1024))


def tail(path: Path, lines: int = 25) -> str:
    """The last lines of one log, headed by its name; without Debian's missing PMIx library."""
    if not path.exists():
        return f"== {path.name}: absent"
    text = path.read_text(errors="replace").splitlines()
    told = [line for line in text if "pmix" not in line and "Plugin init()" not in line]
    return "\n".join([f"== {path.name}", *told[-lines:]])
