"""Runs one function as another user: forked, privileges gone for good, with a time limit.

The child has no way back to root (checked before the function runs), no terminal, no standard
streams, no descriptors but those named, umask 077. The result comes back as JSON: the child
belongs to the user from the moment it has changed over, so its answer is not trusted further
than a JSON value of limited size.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from slurm_io.errors import SlurmIoError, StoreError

MAX_ANSWER_BYTES = 1024 * 1024
_REAP_S = 1.0
_MAX_FD = 1 << 20


def run_as(
    uid: int,
    gid: int,
    groups: Sequence[int],
    fn: Callable[[], Any],
    timeout_s: float = 600.0,
    keep_fds: Sequence[int] = (),
) -> Any:
    """`fn()` run in a child as (uid, gid, groups); what it returns must be JSON.

    Raises StoreError with the child's own one-line reason, or when it overran `timeout_s` (it is
    then killed, and left behind if the kernel cannot end it), died, or answered nonsense. Not root
    and asked for our own uid: runs in a child all the same, without changing groups. uid 0 is
    allowed, because root may run jobs of its own.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child(writer, uid, gid, groups, fn, keep_fds)
    os.close(writer)
    try:
        answer = _receive(reader, time.monotonic() + timeout_s)
    finally:
        os.close(reader)
        ended = _end(pid)
    if answer is None:
        left = "" if ended else f"; process {pid} hangs in the kernel and is left behind"
        raise StoreError(f"uid {uid} did not finish within {timeout_s:g} s{left}")
    return _unpack(answer, uid)


def drop_privileges(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Become (uid, gid, groups) for good; StoreError when that cannot be or could be undone."""
    try:
        if os.geteuid() == 0:
            os.setgroups(list(groups))
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as exc:
        raise StoreError(f"cannot become uid {uid}: {exc.strerror}") from exc
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise StoreError(f"did not become uid {uid}")
    if uid != 0 and _can_be_root_again():
        raise StoreError(f"uid {uid} could become root again: not going on")


def _can_be_root_again() -> bool:
    for become in (os.setresuid, os.setresgid):
        try:
            become(0, 0, 0)
        except PermissionError:
            continue
        return True
    return False


def _child(
    writer: int,
    uid: int,
    gid: int,
    groups: Sequence[int],
    fn: Callable[[], Any],
    keep_fds: Sequence[int],
) -> None:
    """Never returns: whatever happens, the forked copy of the caller ends here."""
    try:
        os.setsid()
        _only_these_fds({writer, *keep_fds})
        os.umask(0o077)
        os.chdir("/")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        drop_privileges(uid, gid, groups)
        answer: dict[str, Any] = {"ok": fn()}
    except SlurmIoError as exc:
        answer = {"error": str(exc)}
    except BaseException as exc:  # noqa: BLE001 - else the caller's own code would run on in here
        answer = {"error": f"{type(exc).__name__}: {exc}"}
    try:
        _send(writer, answer)
    finally:
        os._exit(0)


def _only_these_fds(keep: set[int]) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for fd in {0, 1, 2} - keep:
        os.dup2(null, fd)
    low = 3
    for fd in sorted(keep - {0, 1, 2}):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, _MAX_FD)


def _send(writer: int, answer: dict[str, Any]) -> None:
    data = json.dumps(answer).encode()
    while data:
        data = data[os.write(writer, data) :]


def _receive(reader: int, deadline_s: float) -> bytes | None:
    """All the child writes until it closes; None at the deadline."""
    data = b""
    poll = select.poll()  # not select(): the caller may hold more than 1024 descriptors
    poll.register(reader, select.POLLIN)
    while True:
        left_ms = int(1000 * (deadline_s - time.monotonic()))
        if left_ms <= 0 or not poll.poll(left_ms):
            return None
        chunk = os.read(reader, 65536)
        data += chunk
        if not chunk or len(data) > MAX_ANSWER_BYTES:
            return data


def _end(pid: int) -> bool:
    """Kill the child if it still runs and reap it; False when the kernel holds on to it."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    deadline_s = time.monotonic() + _REAP_S
    while time.monotonic() < deadline_s:
        try:
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                return True
        except ChildProcessError:
            return True
        time.sleep(0.005)
    return False


def _unpack(answer: bytes, uid: int) -> Any:
    try:
        if len(answer) > MAX_ANSWER_BYTES:
            raise ValueError("too long")
        obj = json.loads(answer)
        if "error" in obj:
            text = str(obj["error"])[:500]
            raise StoreError("".join(c if c.isprintable() else " " for c in text))
        return obj["ok"]
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise StoreError(f"the process of uid {uid} died or gave no readable answer") from exc
