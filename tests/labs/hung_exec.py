"""A process that hangs in execve(2), as one does whose file lies on a server that is gone.

The kernel closes what is marked close-on-exec while it holds the process's ``exec_update_lock``,
and the close of a file on slowfs does not return. On newer kernels whoever reads ``stat`` or
``wchan`` of such a process sleeps as well: every ``ps`` on the machine. So it never hangs for long.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.labs.slowfs import SlowFs

LONGEST_S = 45.0
_CHILD = """
import os, sys
os.open(sys.argv[1], os.O_RDONLY | os.O_CLOEXEC)
print(flush=True)
sys.stdin.readline()
os.execv("/bin/sleep", ["sleep", "60"])
"""


class HungExec:
    """`pid` executes another program once :meth:`hang` is called, and is done after
    :meth:`release`."""

    def __init__(self, slow: SlowFs, process: subprocess.Popen[bytes]) -> None:
        self._slow = slow
        self._process = process
        self._timer = threading.Timer(LONGEST_S, self.release)
        self.pid = process.pid

    def hang(self) -> None:
        """Returns when it hangs: not before a read of its `io` would."""
        self._slow.change(hang_globs=("*",), hang_classes=("flush",))
        self._timer.start()
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        time.sleep(0.3)

    def release(self) -> None:
        """The server answers again."""
        self._timer.cancel()
        self._slow.change(hang_globs=())


@contextlib.contextmanager
def hung_exec(folder: Path) -> Iterator[HungExec]:
    """A child of this process, not hanging yet; killed at the end."""
    (folder / "back").mkdir(parents=True)
    (folder / "back" / "data").write_bytes(b"x" * 4096)
    with SlowFs(folder / "back", folder / "mnt") as slow:
        process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(folder / "mnt" / "data")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None and process.stdout is not None
        hung = HungExec(slow, process)
        try:
            process.stdout.readline()
            yield hung
        finally:
            hung.release()
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
