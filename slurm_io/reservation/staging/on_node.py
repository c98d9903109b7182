"""Keeps a long command on a node tied to who asked for it: ``python -m …on_node ARGUMENTS``.

Stdin carries first the number of bytes of the command's own stdin, one line, and those bytes; then
a line every few seconds for as long as somebody waits. ``stop``, the end of stdin, or silence (its
srun was killed, the asking machine died, the network is gone) ends the command in order, then by
force: with ``srun --no-allocate`` nobody else would.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

BEAT_S = 5.0
SILENCE_S = 60.0
STOP = b"stop\n"
BEGAN = "slurm_io-began"
_LONGEST_STDIN = 1024 * 1024
_GRACE_S = 20.0
_TICK_S = 0.5


def main(arguments: list[str]) -> int:
    """The command's exit code, 128 + N where signal N ended it."""
    print(BEGAN, file=sys.stderr, flush=True)
    tether = sys.stdin.fileno()
    child = _start(arguments, _read_stdin(tether))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: _end(child))
    heard_s = time.monotonic()
    while child.poll() is None:
        ready, _, _ = select.select([tether], [], [], _TICK_S)
        if ready:
            said = os.read(tether, 4096)
            heard_s = time.monotonic()
            if not said or STOP.strip() in said:
                _end(child)
        elif time.monotonic() - heard_s > SILENCE_S:
            _end(child)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _read_stdin(tether: int) -> bytes:
    """Byte by byte up to the line's end: what follows is not ours yet."""
    line = b""
    while not line.endswith(b"\n") and len(line) < 20:
        line += os.read(tether, 1) or b"\n"
    size = int(line)
    if not 0 <= size <= _LONGEST_STDIN:
        raise ValueError("too much for its stdin")
    data = b""
    while len(data) < size and (chunk := os.read(tether, size - len(data))):
        data += chunk
    return data


def _start(arguments: list[str], stdin: bytes) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-m", "slurm_io", *arguments],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(stdin)
        child.stdin.close()
    return child


def _end(child: subprocess.Popen[bytes]) -> None:
    for number, patience_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(patience_s)
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
