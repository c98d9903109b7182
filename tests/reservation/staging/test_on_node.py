"""A long command on a node ends when nobody waits for it any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.reservation.staging.on_node import BEGAN, STOP
from tests.labs.cluster_parts import wait_until

# Stands in for a command of ours: says what it reads, then waits to be ended.
COMMAND = """\
import os, sys
if sys.orig_argv[1:4] == ["-m", "slurm_io", "test-wait"]:
    import signal, time
    print("read", sys.stdin.read(), flush=True)
    if "deaf" in sys.orig_argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(sys.orig_argv[4], "w").write(str(os.getpid()))
    if "short" in sys.orig_argv:
        os._exit(7)
    while True:
        time.sleep(1)
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    yield from _started(tmp_path)


def _started(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    (folder / "sitecustomize.py").write_text(COMMAND)
    home = str(Path(__file__).parents[3])
    argv = [sys.executable, "-m", "slurm_io.reservation.staging.on_node", "test-wait"]
    process = subprocess.Popen(
        [*argv, str(folder / "pid"), *words],
        env={**os.environ, "PYTHONPATH": f"{folder}:{home}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(b"7\nsecret\n\n\n")
    process.stdin.flush()
    wait_until(lambda: (folder / "pid").exists(), 30, "the command runs")
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def gone(folder: Path) -> bool:
    return not Path(f"/proc/{(folder / 'pid').read_text()}/cmdline").exists()


@pytest.mark.parametrize("how", ["stop", "end of stdin", "SIGTERM"])
def test_it_ends_with_who_asked(started: subprocess.Popen[bytes], tmp_path: Path, how: str) -> None:
    assert started.stdin is not None
    if how == "stop":
        started.stdin.write(b"\n" + STOP)
        started.stdin.flush()
        code = started.wait(30)
    elif how == "SIGTERM":
        started.send_signal(signal.SIGTERM)
        code = started.wait(30)
    else:
        started.stdin.close()
        code = started.wait(30)
        started.stdin = None
    assert code == 128 + signal.SIGTERM
    assert gone(tmp_path)


def test_its_own_stdin_and_exit_code_are_passed_on(tmp_path: Path) -> None:
    for process in _started(tmp_path, "short"):
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (7, b"read secret\n\n")
        assert err.splitlines()[0].decode() == BEGAN
