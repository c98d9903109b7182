"""Asks ``slurm-io report`` as a user would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.grid.errors import GridError
from tests.labs.slowfs import REPOSITORY

SLURM_IO = (sys.executable, "-m", "slurm_io")
REPORT_TIMEOUT_S = 120


FORMS = {"json": "json", "txt": "text"}


def report_of(folder: Path, suffixes: tuple[str, ...] = ("json", "txt")) -> dict[str, Any]:
    """report.json and report.txt of `folder`/store, written beside it; the first one read."""
    store = os.fspath(folder / "store")
    for suffix in suffixes:
        form = FORMS[suffix]
        done = subprocess.run(
            [*SLURM_IO, "report", store, "-f", form],
            capture_output=True, text=True, timeout=REPORT_TIMEOUT_S, check=False, cwd=REPOSITORY,
        )  # fmt: skip
        if done.returncode != 0:
            raise GridError(f"slurm-io report -f {form}: exit {done.returncode}: {done.stderr}")
        (folder / f"report.{suffix}").write_text(done.stdout)
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report
