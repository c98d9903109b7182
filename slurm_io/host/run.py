"""Runs a command: fixed argument list, absolute path, no shell, a deadline, bounded output.

Everything this project starts (scontrol, lfs, mmlsattr, weka) goes through here. A prolog has no
PATH, so tools are looked up in fixed folders with :func:`find_tool`.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from slurm_io.errors import HostError

TOOL_FOLDERS = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/local/sbin")
DEFAULT_LIMIT_BYTES = 16 * 1024 * 1024
_AFTER_KILL_S = 0.5
_CHUNK_BYTES = 65536


@dataclass(frozen=True)
class Finished:
    """A command that ended by itself. `cut` = it printed more than the limit; the rest is lost."""

    argv: tuple[str, ...]
    return_code: int
    stdout: str
    stderr: str
    wall_s: float
    cut: bool


def find_tool(name: str, extra_folders: Sequence[str] = ()) -> str | None:
    """Absolute path of a tool in the fixed folders, `extra_folders` first; None when absent."""
    for folder in (*extra_folders, *TOOL_FOLDERS):
        path = os.path.join(folder, name)  # noqa: PTH118 - pathlib is not worth it here
        if os.access(path, os.X_OK) and Path(path).is_file():
            return path
    return None


def run(
    argv: Sequence[str],
    timeout_s: float,
    *,
    stdin: bytes = b"",
    extra_environment: Mapping[str, str] | None = None,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    check: bool = False,
) -> Finished:
    """Run `argv` to its end and return what it printed.

    The environment is PATH and LC_ALL=C plus `extra_environment`, nothing of the caller's.

    Raises:
        HostError: the path is not absolute, the tool is missing, the deadline passed (the whole
            process group is killed, and not waited for when it does not die), or with `check` the
            command ended with another code than 0.
    """
    if not argv or not argv[0].startswith("/"):
        raise HostError(f"{list(argv[:1])}: give commands by their absolute path")
    began_s = time.monotonic()
    process = _start(argv, extra_environment or {})
    try:
        stdout, stderr, cut = _talk(process, stdin, began_s + timeout_s, limit_bytes)
        process.wait(max(0.0, began_s + timeout_s - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired):
        stuck = "" if _kill(process) else "; it does not die, so it was left behind"
        raise HostError(f"{' '.join(argv)}: no answer within {timeout_s:g} s{stuck}") from None
    finally:
        _close_pipes(process)
        _kill(process)
    finished = Finished(
        argv=tuple(argv),
        return_code=process.returncode,
        stdout=stdout.decode("utf-8", "replace"),
        stderr=stderr.decode("utf-8", "replace"),
        wall_s=time.monotonic() - began_s,
        cut=cut,
    )
    if check and finished.return_code != 0:
        raise HostError(f"{' '.join(argv)}: {_complaint(finished)}")
    return finished


def _start(argv: Sequence[str], extra_environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    environment = {"PATH": ":".join(TOOL_FOLDERS), "LC_ALL": "C", **extra_environment}
    try:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise HostError(f"cannot run {argv[0]}: {error.strerror or error}") from error


def _talk(
    process: subprocess.Popen[bytes], stdin: bytes, deadline_s: float, limit_bytes: int
) -> tuple[bytes, bytes, bool]:
    """Feed stdin, gather both outputs up to the limit; TimeoutError at the deadline."""
    assert process.stdin and process.stdout and process.stderr
    gathered = {process.stdout: bytearray(), process.stderr: bytearray()}
    cut = False
    with selectors.DefaultSelector() as selector:
        for pipe in gathered:
            selector.register(pipe, selectors.EVENT_READ)
        rest = memoryview(stdin)
        if rest:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        else:
            process.stdin.close()
        while selector.get_map():
            ready = selector.select(max(0.0, deadline_s - time.monotonic()))
            if not ready and time.monotonic() >= deadline_s:
                raise TimeoutError
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    rest = _feed(process.stdin, rest, selector)
                else:
                    cut |= _gather(key.fileobj, gathered, limit_bytes, selector)  # type: ignore[arg-type]
    return bytes(gathered[process.stdout]), bytes(gathered[process.stderr]), cut


def _feed(pipe: IO[bytes], rest: memoryview, selector: selectors.BaseSelector) -> memoryview:
    try:
        rest = rest[os.write(pipe.fileno(), rest[:_CHUNK_BYTES]) :]
    except BrokenPipeError:
        rest = rest[:0]
    if not rest:
        selector.unregister(pipe)
        pipe.close()
    return rest


def _gather(
    pipe: IO[bytes],
    gathered: dict[IO[bytes], bytearray],
    limit_bytes: int,
    selector: selectors.BaseSelector,
) -> bool:
    """Take what is there; True when some of it went over the limit and was dropped."""
    chunk = os.read(pipe.fileno(), _CHUNK_BYTES)
    if not chunk:
        selector.unregister(pipe)
        return False
    room_bytes = limit_bytes - len(gathered[pipe])
    gathered[pipe] += chunk[: max(0, room_bytes)]
    return len(chunk) > room_bytes


def _kill(process: subprocess.Popen[bytes]) -> bool:
    """Kill the process group; False when the command is still there half a second later."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_AFTER_KILL_S)
    if process.returncode is None:
        # Popen would complain about a running child when it is collected.
        process.returncode = -signal.SIGKILL
        return False
    return True


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _complaint(finished: Finished) -> str:
    said = (finished.stderr.strip() or finished.stdout.strip()).splitlines()
    return f"exit code {finished.return_code}" + (f": {said[-1][:300]}" if said else "")
