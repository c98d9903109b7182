"""Looks at ranks in their step that stand for the passes after them, on made-up /proc files."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors.base import Member, Tick
from slurm_io.collectors.waits import WaitsCollector
from slurm_io.store.schema import TABLES, WAIT_CLASSES
from tests.collectors.real_process import context

SECOND_NS = 1_000_000_000
RUNNING = b"running\n"
ASLEEP = b"230 0x0 0x0 0x7ffd 0x0 0x0 0x0 0x7ffc 0x7f6b\n"  # clock_nanosleep
PID = 7


class Watched:
    """A worker whose thread and whose rank's phase the test sets, with time as the test says."""

    def __init__(self, proc_root: Path, hold_s: float) -> None:
        self.phase = "step"
        thread = proc_root / f"{PID}/task/{PID}"
        for folder in (thread, proc_root / "self"):
            folder.mkdir(parents=True)
            for name in ("syscall", "wchan"):
                (folder / name).write_bytes(b"")
        self._syscall = thread / "syscall"
        self._line = b""
        self._collector = WaitsCollector()
        members = [Member(PID, 1, 1, "python", 0, "worker", 1)]
        looks_at = context(members, lambda _pid: (self.phase, None))
        self._collector.open(replace(looks_at, proc_root=proc_root))
        self._collector.hold_ns = int(hold_s * SECOND_NS)

    def pass_at(self, second: float, line: bytes) -> None:
        """One pass that finds this in the worker's ``syscall``, if it looks."""
        if line != self._line:
            self._line = line
            self._syscall.write_bytes(line)
        self._collector.sample(int(second * SECOND_NS))

    def rows(self) -> dict[str, dict[str, Any]]:
        """Rows since the last call, by phase."""
        columns = TABLES["waits"].column_names()
        rows = self._collector.collect(Tick(2, 1, 1))
        named = [dict(zip(columns, row, strict=True)) for row in rows]
        return {row["phase"]: row for row in named}


def samples(row: dict[str, Any]) -> int:
    """Of all classes."""
    return sum(row[f"n_{name}"] for name in WAIT_CLASSES)


def test_a_look_at_a_step_stands_for_the_passes_that_follow_for_as_long_as_told(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path, hold_s=2)
    watched.pass_at(100.0, ASLEEP)
    for second in (100.5, 101.0, 101.9):
        watched.pass_at(second, RUNNING)
    row = watched.rows()["step"]
    assert (row["passes"], row["processes"], row["n_sleep"], row["n_cpu"]) == (4, 1, 4, 0)
    watched.pass_at(102.1, RUNNING)
    assert watched.rows()["step"]["n_cpu"] == 1


@pytest.mark.parametrize("phase", ["data_wait", "ckpt", "load", "none"])
def test_in_any_other_phase_every_pass_looks(phase: str, tmp_path: Path) -> None:
    watched = Watched(tmp_path, hold_s=60)
    watched.phase = phase
    watched.pass_at(100.0, ASLEEP)
    watched.pass_at(100.5, RUNNING)
    row = watched.rows()[phase]
    assert (row["passes"], row["n_sleep"], row["n_cpu"]) == (2, 1, 1)


def test_a_look_at_a_step_never_stands_for_another_phase(tmp_path: Path) -> None:
    watched = Watched(tmp_path, hold_s=60)
    watched.pass_at(100.0, ASLEEP)
    watched.phase = "ckpt"
    watched.pass_at(100.1, RUNNING)
    watched.phase = "step"
    watched.pass_at(100.2, RUNNING)
    rows = watched.rows()
    assert (rows["ckpt"]["passes"], rows["ckpt"]["n_cpu"]) == (1, 1)
    assert (rows["step"]["passes"], rows["step"]["n_sleep"]) == (2, 2)


def test_at_full_pace_every_pass_looks(tmp_path: Path) -> None:
    watched = Watched(tmp_path, hold_s=0)
    watched.pass_at(100.0, ASLEEP)
    watched.pass_at(100.001, RUNNING)
    row = watched.rows()["step"]
    assert (row["passes"], row["n_sleep"], row["n_cpu"]) == (2, 1, 1)


@pytest.mark.parametrize("hold_s", [0.0, 2.0])
def test_held_looks_keep_the_share_of_each_class(hold_s: float, tmp_path: Path) -> None:
    """A worker that computes for 0.9 s and sleeps for 2.1 s, over and over; three passes a second
    at random moments."""
    watched, chance = Watched(tmp_path, hold_s), random.Random(3)
    for turn in range(4_000):
        second = (turn + chance.random()) / 3
        watched.pass_at(second, RUNNING if second % 3 < 0.9 else ASLEEP)
    row = watched.rows()["step"]
    assert row["passes"] == samples(row) == 4_000
    assert row["n_cpu"] / 4_000 == pytest.approx(0.3, abs=0.04)
