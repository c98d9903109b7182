"""Starts a real sampler on a real spool."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slurm_io.model import JobIdentity, SamplerSpec


def make_spool(folder: Path, root_pid: int | None, **fields: Any) -> Path:
    """A spool folder with its sampler.json."""
    spool, rings = folder / "spool", folder / "rings"
    spool.mkdir(mode=0o700)
    rings.mkdir(mode=0o700, exist_ok=True)
    job = JobIdentity("local", "77", 0, "u", os.getuid(), work_dir="/")
    settings: dict[str, Any] = {"mode": "user", "flush_s": 0.5, **fields}
    spec = SamplerSpec(
        job=job, node="here", spool=str(spool), ring_dir=str(rings), root_pid=root_pid, **settings
    )
    (spool / "sampler.json").write_text(json.dumps(spec.to_dict()))
    return spool


@contextlib.contextmanager
def sampler(spool: Path) -> Iterator[subprocess.Popen[bytes]]:
    """``python -m slurm_io.sampler``, killed at the end whatever happened."""
    process = subprocess.Popen(
        [sys.executable, "-m", "slurm_io.sampler", str(spool)], stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


@contextlib.contextmanager
def job(script: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A Python job in a session of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        start_new_session=True,
        cwd=Path(__file__).parents[2],
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(path: Path, seconds: float = 20.0) -> None:
    """Until a file is there."""
    deadline_s = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline_s, f"no {path}"
        time.sleep(0.02)


def facts(spool: Path, name: str) -> dict[str, Any]:
    """meta.json or self.json."""
    content: dict[str, Any] = json.loads((spool / name).read_text())
    return content
