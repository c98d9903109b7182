"""A Python that the jobs' user can start and that finds the packages of the tests' own.

The interpreter the tests run under may lie where only root can go (root's home). Then another one
of the same minor version does, with the tests' site-packages on its path.
"""

from __future__ import annotations

import os
import pwd
import shutil
import site
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class UserPython:
    """`path` is the interpreter, `packages` what PYTHONPATH must hold for it ("" = nothing)."""

    path: str
    packages: str

    def shell_lines(self) -> str:
        """For a job script: sets PYTHONPATH beside what is there, and $PYTHON."""
        lines = f"PYTHON={self.path}\n"
        if self.packages:
            lines += f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{self.packages}"\n'
        return lines


def find_user_python(user: str, module: str = "json") -> UserPython | None:
    """The first interpreter that `user` can start and import `module` with; None when none can."""
    packages = ":".join(site.getsitepackages())
    minor = f"python3.{sys.version_info.minor}"
    others = [shutil.which(minor, path=folder) for folder in ("/usr/bin", "/usr/local/bin")]
    candidates = [UserPython(sys.executable, "")]
    candidates += [UserPython(path, packages) for path in others if path]
    return next((each for each in candidates if _works(each, user, module)), None)


def _works(python: UserPython, user: str, module: str) -> bool:
    account = pwd.getpwnam(user)
    environment = {"PATH": "/usr/bin:/bin"}
    if python.packages:
        environment["PYTHONPATH"] = python.packages
    if not Path(python.path).exists():
        return False
    try:
        done = subprocess.run(
            [python.path, "-c", f"import {module}"],
            env=environment,
            cwd="/",
            capture_output=True,
            timeout=60,
            check=False,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and os.access(python.path, os.X_OK)
