"""Runs a small training script in a process of its own, with the hook attached as a job has it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import slurm_io
from tests.hook.ring_reader import RingFile, read_rings

HOOK = Path(slurm_io.__file__).parent / "hook"
ATTACH = HOOK / "attach"


@dataclass
class Job:
    """One attached job: a working folder, a ring folder, an environment."""

    folder: Path
    python: str = sys.executable
    env: dict[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = (str(ATTACH),)

    def __post_init__(self) -> None:
        self.ring_folder = self.folder / "rings"
        self.ring_folder.mkdir(exist_ok=True)

    def run(
        self,
        script: str,
        *flags: str,
        env: Mapping[str, str] | None = None,
        name: str = "train.py",
        before: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """Run the script; `before` is shell to run first in the same process."""
        file = self.folder / name
        file.write_text(textwrap.dedent(script))
        command = [self.python, *flags, str(file)]
        if before:
            command = ["/bin/sh", "-c", before + '; exec "$@"', "sh", *command]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self._environment(env or {}),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def ok(self, script: str, *flags: str, env: Mapping[str, str] | None = None) -> str:
        """Run it, insist on success and silence on stderr; its stdout."""
        done = self.run(script, *flags, env=env)
        assert done.returncode == 0, done.stderr
        assert done.stderr == "", done.stderr
        return done.stdout

    def rings(self) -> list[RingFile]:
        return read_rings(self.ring_folder)

    def ring(self) -> RingFile:
        """The only ring."""
        rings = self.rings()
        assert len(rings) == 1
        return rings[0]

    def _environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": os.pathsep.join(self.path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SLURM_IO_RING_DIR": str(self.ring_folder),
            "OMP_NUM_THREADS": "1",
        }
        return {**env, **self.env, **extra}
