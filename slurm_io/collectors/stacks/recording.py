"""One window: py-spy on one process, as that process's user, in a child of the sampler.

Everything in here runs in the child of a :class:`slurm_io.host.probe.Probe`: it can be killed, and
of its answer nothing is believed. py-spy reads the memory of a process whose owner may be hostile,
so as root it would be the owner's way to root. So root puts the child into the target's control
groups, turns into the target's user for good (user, group and groups as the target has them) and
only then starts py-spy and reads what it wrote: whoever takes it over has won what he had.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from slurm_io.errors import HostError
from slurm_io.frames.table import FrameTable
from slurm_io.frames.windows import StateRow, judge_window
from slurm_io.host.job_cgroups import unified_root, v1_controllers
from slurm_io.host.read import read_text
from slurm_io.host.same_process import is_alive
from slurm_io.records import dataclass
from slurm_io.stacktext.chrometrace import parse_chrometrace
from slurm_io.store.run_as import drop_privileges

LARGEST_TRACE_BYTES = 8 * 1024 * 1024
_LIMITS = (
    (resource.RLIMIT_FSIZE, LARGEST_TRACE_BYTES),
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_CPU, 20),
    (resource.RLIMIT_AS, 4 << 30),
    (resource.RLIMIT_NOFILE, 256),
)
_OVER_S = 3.0  # a busy machine stretches a window; then it is told to end
_WRITING_S = 3.0
_MOST_ROWS = 400
_MOST_SAID = 2000


@dataclass(frozen=True)
class Order:
    """What a child is told. `uid`: whose processes may be recorded, None = whoever owns it;
    `as_root`: stay root. `grid_ns`: a border of the seconds on CLOCK_MONOTONIC."""

    pid: int
    starttime: int
    program: str
    duration_s: int
    rate_hz: int
    spool: str
    uid: int | None
    as_root: bool
    grid_ns: int
    proc_root: str = "/proc"
    sys_root: str = "/sys"


def longest_s(duration_s: float) -> float:
    """After so long a child has ended, or it hangs."""
    return duration_s + _OVER_S + _WRITING_S + 2.0


def record(order: Order, table: FrameTable) -> dict[str, Any]:
    """Record, judge, answer: ``{rows, instants, torn, damaged}`` or ``{refused: why}``."""
    owner = _owner(order)
    if isinstance(owner, str):
        return {"refused": owner}
    # Made before anything changes hands: the spool is root's own.
    output, said = _nameless_file(order.spool), _nameless_file(order.spool)
    refusal = _become(owner, order, (output, said))
    if refusal is not None:
        return {"refused": refusal}
    started_ns = time.monotonic_ns()
    code = _run_py_spy(order, output, said)
    if code != 0:
        words = os.pread(said, _MOST_SAID, 0).decode("utf-8", "replace")
        return {"refused": reason_of(words, code)}
    trace = parse_chrometrace(os.pread(output, LARGEST_TRACE_BYTES, 0))
    window = judge_window(trace, table, order.rate_hz, started_ns, order.grid_ns)
    return {
        "rows": [_plain(row) for row in window.rows[:_MOST_ROWS]],
        "instants": window.instants,
        "torn": window.torn,
        "damaged": trace.damaged_events,
    }


def _plain(row: StateRow) -> list[object]:
    return [
        row.end_ns, row.role, row.state, row.sub, row.samples, row.certain, row.why, row.folded,
    ]  # fmt: skip


@dataclass(frozen=True)
class Owner:
    """The identity of a process, from its status."""

    uid: int
    gid: int
    groups: tuple[int, ...]


def owner_in(status: str) -> Owner | None:
    """Uid, Gid and Groups of /proc/PID/status; None when real, effective and saved differ."""
    ids = {}
    for line in status.splitlines():
        name, _, rest = line.partition(":")
        if name in ("Uid", "Gid", "Groups"):
            words = rest.split()
            if not all(word.isdecimal() for word in words):
                return None
            ids[name] = tuple(int(word) for word in words)
    uids, gids = ids.get("Uid", ()), ids.get("Gid", ())
    if len(set(uids)) != 1 or len(set(gids)) != 1:
        return None
    return Owner(uids[0], gids[0], ids.get("Groups", ()))


def _owner(order: Order) -> Owner | str:
    """The target's identity, or why it is left alone."""
    try:
        status = read_text(f"{order.proc_root}/{order.pid}/status")
    except HostError:
        return "the process has ended"
    if not is_alive(order.pid, order.starttime):
        return "the process has ended"
    owner = owner_in(status)
    if owner is None:
        return "the process runs under more than one user"
    if order.uid is not None and owner.uid != order.uid:
        return "the process is not the job's user's"
    return owner


def _become(owner: Owner, order: Order, files: tuple[int, ...]) -> str | None:
    """Be the target's user, in its control groups; why not, if that cannot be."""
    for limit, most in _LIMITS:
        _soft, hard = resource.getrlimit(limit)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))
    if os.geteuid() != 0 or owner.uid == 0 or order.as_root:
        return None
    try:
        join_cgroups(read_text(f"{order.proc_root}/{order.pid}/cgroup"), Path(order.sys_root))
    except (OSError, HostError) as error:
        return f"cannot enter the job's control groups: {error}"[:200]
    for file in files:
        os.fchown(file, owner.uid, owner.gid)
    drop_privileges(owner.uid, owner.gid, owner.groups)
    return None


def join_cgroups(text: str, sys_root: Path) -> None:
    """Put this process where a process with that /proc/PID/cgroup is. Raises OSError where the
    kernel refuses; a hierarchy that is not mounted here confines nobody."""
    v1, v2 = v1_controllers(sys_root), unified_root(sys_root)
    with open("/proc/self/cgroup") as file:
        mine = set(file.read().splitlines())
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        root = v2 if number == "0" else next((v1[n] for n in names.split(",") if n in v1), None)
        if root is None or line in mine or ".." in path.split("/"):
            continue
        with open(root / path.lstrip("/") / "cgroup.procs", "w") as procs:
            procs.write("0")


def _run_py_spy(order: Order, output: int, said: int) -> int:
    """Run it to its end; its exit code. Told to end (SIGINT) it still writes what it has."""
    process = subprocess.Popen(
        [
            order.program, "record", "--nonblocking", "--idle", "-f", "chrometrace",
            "-d", str(order.duration_s), "-r", str(order.rate_hz),
            "-o", f"/proc/self/fd/{output}", "-p", str(order.pid),
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, pass_fds=(output,),
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "RUST_BACKTRACE": "0"}, cwd="/",
    )  # fmt: skip
    signal.signal(signal.SIGINT, lambda *_: _tell(process))
    for patience_s in (order.duration_s + _OVER_S, _WRITING_S):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(patience_s)
        _tell(process)
    process.kill()
    process.wait(_WRITING_S)
    return 1


def _tell(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)


def _nameless_file(folder: str) -> int:
    """A file of ours in the spool that no name leads to: nothing is left behind, whatever ends."""
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        return os.open(folder, os.O_TMPFILE | flags, 0o600)
    except OSError:  # a file system without O_TMPFILE
        descriptor, name = tempfile.mkstemp(prefix=".stacks-", dir=folder)
        os.unlink(name)
        return descriptor


def reason_of(words: str, code: int) -> str:
    """One line for the report out of what py-spy printed."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    text = " ".join(lines).lower()
    if "permission denied" in text or "operation not permitted" in text or "os error 1)" in text:
        return "the kernel refused: another user's process, or one that forbids ptrace"
    if "unsupported version of python" in text:
        return "py-spy does not know this Python version"
    if "failed to find python version" in text or "failed to find a python interp" in text:
        return "py-spy found no Python that it knows"
    if "isn't a valid value for '--format" in text or "invalid value 'chrometrace'" in text:
        return "py-spy is too old: 0.4 or later is needed"
    if "no such process" in text or "process exited" in text or "process is running" in text:
        return "the process has ended"
    errors = [line for line in lines if line.lower().startswith("error")]
    said = (errors or lines or ["nothing"])[0]
    return f"py-spy ended with code {code}: {said}"[:200]
