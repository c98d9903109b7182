"""Runs a copying program beside us: its output as it comes, its end when we are told to stop.

It runs in a session of its own with a guard: a shell that waits for the end of a pipe whose other
end only we hold, and then kills the session. So a copy killed by ``kill -9`` leaves nobody behind
who still writes into its folder. Asking the kernel to do that (PR_SET_PDEATHSIG) would not reach
rsync's second process, which lives on for as long as its peer is silent.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

ERRORS_LIMIT_BYTES = 4 << 20
_LOOK_S = 0.2
_POLL_S = 0.02
_GRACE_S = 3.0
_CHUNK_BYTES = 65536
_GUARDED = '(read -r _ <"/proc/self/fd/$0"; kill -KILL 0) >/dev/null 2>&1 & exec "$@"'
"""$0 is the pipe's descriptor, the rest the program and its arguments, which no shell parses."""


@dataclass(frozen=True)
class Ended:
    """How it ended: negative `return_code` = by that signal. `stopped`: because we were told to.

    `errors` is what it wrote to standard error, its beginning where that was long.
    """

    return_code: int
    errors: bytes
    stopped: bool = False


def run_child(
    argv: Sequence[str],
    environment: Mapping[str, str],
    given: bytes,
    stop: threading.Event,
    on_output: Callable[[bytes], None],
    keep: Sequence[int] = (),
    look: Callable[[], None] = lambda: None,
) -> Ended:
    """Run `argv`, `given` on its standard input, until it ends or `stop` is set.

    `on_output` gets standard output piece by piece. `keep`: descriptors it holds open while any
    process of it lives. `look` is called several times a second. Raises OSError when it cannot be
    started.
    """
    guard, ours = os.pipe()
    try:
        with _readable(given) as stdin:
            process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARDED, str(guard), *argv],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment),
                cwd="/",
                start_new_session=True,
                pass_fds=(guard, *keep),
            )
        return _watched(process, stop, on_output, look)
    finally:
        os.close(guard)
        os.close(ours)


def _watched(
    process: subprocess.Popen[bytes],
    stop: threading.Event,
    on_output: Callable[[bytes], None],
    look: Callable[[], None],
) -> Ended:
    with process:
        try:
            errors, stopped = _listen(process, stop, on_output, look)
            _wait_for_end(process.pid, None)
            return Ended(_reaped(process), errors, stopped)
        finally:
            _reaped(process)


@contextlib.contextmanager
def _readable(given: bytes) -> Iterator[BinaryIO]:
    """A file in memory: nobody has to feed a pipe while reading two others."""
    fd = os.memfd_create("given", os.MFD_CLOEXEC)
    with os.fdopen(fd, "w+b") as file:
        file.write(given)
        file.seek(0)
        yield file


def _listen(
    process: subprocess.Popen[bytes],
    stop: threading.Event,
    on_output: Callable[[bytes], None],
    look: Callable[[], None],
) -> tuple[bytes, bool]:
    """Both outputs to their ends; (standard error, whether we stopped it)."""
    assert process.stdout and process.stderr
    errors, stopped = bytearray(), False
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while selector.get_map():
            if stop.is_set() and not stopped:
                stopped = True
                _end(process)
            look()
            for key, _ in selector.select(_LOOK_S):
                chunk = os.read(key.fd, _CHUNK_BYTES)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    on_output(chunk)
                else:
                    errors += chunk[: max(0, ERRORS_LIMIT_BYTES - len(errors))]
    return bytes(errors), stopped


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, then do not ask: rsync's second half lives on for a while else."""
    _signal(process, signal.SIGTERM)
    _wait_for_end(process.pid, _GRACE_S)
    _signal(process, signal.SIGKILL)


def _wait_for_end(pid: int, timeout_s: float | None) -> None:
    """Until it has ended, without reaping it: its number stays its own, so that its session can
    still be killed."""
    end_s = None if timeout_s is None else time.monotonic() + timeout_s
    flags = os.WEXITED | os.WNOWAIT | (0 if end_s is None else os.WNOHANG)
    with contextlib.suppress(ChildProcessError):
        while os.waitid(os.P_PID, pid, flags) is None:
            if end_s is not None and time.monotonic() > end_s:
                return
            time.sleep(_POLL_S)


def _reaped(process: subprocess.Popen[bytes]) -> int:
    """Its return code, when nothing of it lives any more."""
    if process.returncode is None:
        _signal(process, signal.SIGKILL)
    return process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """To its whole session: a child of it may live on when it does not."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
