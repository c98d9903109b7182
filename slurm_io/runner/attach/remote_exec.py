"""``sys.remote_exec`` from outside: which interpreter may call it on which process, and the call.

Both ends must be the same minor version (PEP 768), so the caller is our own interpreter where it
fits, else the target's own program, run as the target's user and in the target's control groups:
root never executes what a user put there, and it does not carry it out of the job's limits either.
The kernel asks for ptrace rights: the same user where Yama allows it, or root.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from slurm_io.collectors.stacks.recording import join_cgroups, owner_in
from slurm_io.errors import HostError
from slurm_io.host.probe import probe
from slurm_io.host.read import read_optional_text, read_text
from slurm_io.store.run_as import drop_privileges

FIRST_VERSION = (3, 14)
_TIMEOUT_S = 20.0
_CALL = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"
_IN_NAME = re.compile(r"python3\.([0-9]{1,2})t?")
_IN_LIBRARY = re.compile(r"/libpython3\.([0-9]{1,2})t?d?\.so")
_MAPS_LIMIT_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Caller:
    """The program that calls, and the user it runs as, by way of the target (None = as we do)."""

    program: str
    uid: int | None = None


def find_caller(pid: int, uid: int) -> Caller:
    """Who can call on process `pid` of user `uid`. HostError says why nobody can."""
    version = python_version(pid)
    if version is None:
        raise HostError(f"process {pid} is no Python whose version can be told")
    if version < FIRST_VERSION:
        raise HostError(
            f"process {pid} runs Python {version[0]}.{version[1]}: a hook can be loaded into a "
            "running process from 3.14 on; start the job under `slurm-io run` instead"
        )
    if sys.version_info[:2] == version and hasattr(sys, "remote_exec"):
        return Caller(sys.executable)
    return _program_of(pid, uid)


def call(caller: Caller, pid: int, script: str) -> None:
    """Have process `pid` run the file `script` when it comes to it. HostError when refused."""
    if caller.uid is None:
        failed = _call(caller.program, pid, script)
    else:
        words = (caller.program, pid, script, caller.uid)
        answer = probe(_call_as_owner, *words, timeout_s=_TIMEOUT_S + 2)
        failed = answer.value if answer.state == "ok" else answer.reason
    if failed is not None:
        raise HostError(str(failed))


def _call(program: str, pid: int, script: str) -> str | None:
    """Why it failed; None when it did not."""
    try:
        done = subprocess.run(
            [program, "-I", "-S", "-c", _CALL, str(pid), script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            cwd="/",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"cannot start {program}: {error}"
    if done.returncode == 0:
        return None
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return f"process {pid} refuses: {_reason(said[-1] if said else 'no reason given')}"


def _call_as_owner(program: str, pid: int, script: str, uid: int) -> str | None:
    """In a child that becomes the target's user for good. Raises OSError, HostError, StoreError."""
    owner = owner_in(read_text(f"/proc/{pid}/status"))
    if owner is None or owner.uid != uid:
        return f"process {pid} runs under another user by now"
    join_cgroups(read_text(f"/proc/{pid}/cgroup"), Path("/sys"))
    drop_privileges(owner.uid, owner.gid, owner.groups)
    return _call(program, pid, script)


def python_version(pid: int, proc_root: Path = Path("/proc")) -> tuple[int, int] | None:
    """(3, minor) of the Python that a process runs, by its program's or its library's name."""
    try:
        name = (proc_root / str(pid) / "exe").readlink().name
    except OSError:
        return None
    found = _IN_NAME.match(name)
    if found is None:
        maps = read_optional_text(proc_root / str(pid) / "maps", _MAPS_LIMIT_BYTES) or ""
        found = _IN_LIBRARY.search(maps)
    return (3, int(found[1])) if found else None


def _program_of(pid: int, uid: int) -> Caller:
    """The target's own interpreter, if what lies at its path is still what the process runs."""
    link = Path(f"/proc/{pid}/exe")
    try:
        program = link.readlink()
        same = os.path.samestat(program.stat(), link.stat())
    except OSError:
        same = False
    if not same:
        raise HostError(
            f"process {pid} runs a Python that is not to be found here (a container, or replaced "
            "since): attach from inside, with the same Python"
        )
    if os.geteuid() == uid:
        return Caller(str(program))
    return Caller(str(program), uid)


def _reason(line: str) -> str:
    """Python's last line in our words."""
    if "PermissionError" in line or "Operation not permitted" in line:
        return "the kernel does not let this user write to it (ptrace rights: Yama, capabilities)"
    return line[:300]
