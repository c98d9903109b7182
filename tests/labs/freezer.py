"""Processes that no signal ends: the v1 freezer keeps its members in state D."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

FREEZER = Path("/sys/fs/cgroup/freezer")


@contextlib.contextmanager
def freezer_group() -> Iterator[Path]:
    """A group for :func:`sleep_in_state_d`, gone afterwards. Skips where there is none."""
    if os.geteuid() != 0 or not (FREEZER / "cgroup.procs").exists():
        pytest.skip("needs root and the cgroup v1 freezer to make an unkillable process")
    group = FREEZER / f"slurm_io_test_{os.getpid()}"
    group.mkdir()
    try:
        yield group
    finally:
        thaw(group)
        end_s = time.monotonic() + 5
        while (group / "cgroup.procs").read_text() and time.monotonic() < end_s:
            time.sleep(0.005)
        group.rmdir()


def thaw(group: Path) -> None:
    """Let the group's members go on, and die if they were killed."""
    (group / "freezer.state").write_text("THAWED")


def sleep_in_state_d(group: Path) -> None:
    """Never comes back, whatever is sent to this process."""
    (group / "cgroup.procs").write_text(str(os.getpid()))
    (group / "freezer.state").write_text("FROZEN")
    time.sleep(60)
