"""A program that runs without the hook and executes scripts in its ``__main__`` when told to, as a
Python of 3.14 does for `sys.remote_exec`: here on every version, between two batches."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from slurm_io.runner.attach.remote_script import leave_script, load_script
from tests.hook.ring_reader import RingFile, read_ring
from tests.hook.scripts import ATTACH
from tests.sampler.ring_maker import starttime_of

PROLOGUE = """
import gc, json, os, sys

def come_by(said=None):
    print(json.dumps(said), flush=True)
    path = sys.stdin.readline().strip()
    if path:
        with open(path) as file:
            exec(compile(file.read(), path, "exec"), vars(sys.modules["__main__"]))

def settings():
    main = sorted(set(vars(sys.modules["__main__"])) - {"_", "before", "__builtins__"})
    return [main, list(sys.path), list(map(repr, sys.meta_path)), list(map(repr, gc.callbacks)),
            dict(os.environ)]
"""


@dataclass
class LateJob:
    """The running program. :meth:`step` lets it come by once."""

    folder: Path
    process: subprocess.Popen[str]

    @property
    def rings(self) -> Path:
        return self.folder / "rings"

    @property
    def answer(self) -> Path:
        return self.rings / "answer"

    def said(self) -> str:
        """The next line of the program."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def step(self, script: str | None = None) -> None:
        """Have it go on, after executing `script`."""
        path = self.folder / "script.py"
        if script is not None:
            path.write_text(script)
        stdin: IO[str] | None = self.process.stdin
        assert stdin is not None
        stdin.write(f"{path}\n" if script is not None else "\n")
        stdin.flush()

    def load(self, pid: int | None = None) -> str:
        """The script that loads the hook, for this process unless another is given."""
        who = ((pid or self.process.pid, starttime_of(self.process.pid)),)
        return load_script(who, str(ATTACH), str(self.rings), str(self.answer))

    def leave(self) -> str:
        """The script that takes it out."""
        who = ((self.process.pid, starttime_of(self.process.pid)),)
        return leave_script(who, str(self.answer))

    def ring(self) -> RingFile:
        """The only ring."""
        (ring,) = self.rings.glob("ring-*")
        return read_ring(ring)

    def end(self) -> str:
        """Let it run to its end; what it still said."""
        out, err = self.process.communicate("", timeout=60)
        assert (self.process.returncode, err) == (0, ""), err
        return out.strip()


@contextmanager
def late_job(
    folder: Path, script: str, python: str = sys.executable, **environment: str
) -> Iterator[LateJob]:
    """Start `script`; killed at the end whatever happened."""
    (folder / "rings").mkdir()
    file = folder / "train.py"
    file.write_text(PROLOGUE + textwrap.dedent(script))
    env = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [python, str(file)],
        cwd=folder,
        env={**env, "HOME": str(folder), **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield LateJob(folder, process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
