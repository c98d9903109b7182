"""Runs one of the programs under ``slurm-io run`` and lays its own stopwatch beside what was seen.

Shares are parts of the program's own training time, from the end of its first wait to the end of
its last step. `truth` is the program's stopwatch; `hook` the product's timeline of the same
process (`passes` is the starting and ending of passes over the loader, no wait); `stacks` what the
product's windows of stacks hold, few and far apart; `looks` the same judgement of many more looks
(:mod:`tests.frameworks.looks`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.timeline import Process, read_timeline
from slurm_io.store.reader import JobStore, open_job
from tests.frameworks.looks import Looks

PROGRAMS = Path(__file__).parent / "programs"
REPOSITORY = Path(__file__).resolve().parents[2]
STATES = ("data_wait", "ckpt")


@dataclass(frozen=True)
class Seen:
    """One run. Shares by state; None where that view did not look."""

    truth: dict[str, float]
    hook: dict[str, float] | None
    looks: dict[str, float] | None
    stacks: dict[str, float] | None
    samples: int
    steps: int
    hook_steps: int | None
    report: dict[str, Any]

    def line(self) -> str:
        """For people."""
        parts = [f"truth {_shown(self.truth)}"]
        if self.hook is not None:
            parts.append(f"hook {_shown(self.hook)}")
        if self.looks is not None:
            parts.append(f"looks {_shown(self.looks)}")
        if self.stacks is not None:
            parts.append(f"stacks {_shown(self.stacks)} of {self.samples}")
        return f"{', '.join(parts)}; {self.steps} steps, verdict {self.report['verdict']}"


def prepare(program: str, data: Path) -> None:
    """Write the program's dataset."""
    data.mkdir(parents=True)
    _run([*_command(program, data), "--prepare"])


def run(
    program: str, data: Path, saves: Path, work: Path, *, hook: bool, seconds: float, workers: int
) -> Seen:
    """Train from `data`, with the hook, or without it and looked at instead."""
    command = [sys.executable, "-m", "slurm_io", "run", "--stacks", "-o", str(work / "store")]
    command += [] if hook else ["--no-hook"]
    command += ["--", *_command(program, data), "--truth", str(work / "truth.json")]
    command += ["--saves", str(saves), "--seconds", str(seconds), "--workers", str(workers)]
    looks = None
    with _started(command, work / "log") as process:
        if not hook:
            looks = Looks(work / "truth.pid", work, seconds - 2)
        code = process.wait(seconds * 2 + 120)
    assert code == 0, f"{command}:\n{(work / 'log').read_text(errors='replace')[-4000:]}"
    return look(work, looks.collect() if looks is not None else None)


def look(work: Path, looks: dict[str, int] | None) -> Seen:
    """Compare what was seen with the stopwatch."""
    truth = json.loads((work / "truth.json").read_text())
    store = open_job(work / "store")
    process = _timed(store, truth["pid"])
    states = _stacks(store, truth)
    return Seen(
        truth={
            "data_wait": _covered(truth, truth["waits"]),
            "ckpt": _covered(truth, truth["saves"]),
        },
        hook=_shares_of(process) if process is not None else None,
        looks=_parts(looks) if looks is not None else None,
        stacks=_parts(states) if states else None,
        samples=sum(states.values()),
        steps=truth["steps"],
        hook_steps=process.steps if process is not None else None,
        report=json.loads((work / "store" / "report.json").read_text()),
    )


def _timed(store: JobStore, pid: int) -> Process | None:
    processes = read_timeline(Tables(store)).processes
    return next((process for process in processes if process.pid == pid), None)


def _shares_of(process: Process) -> dict[str, float]:
    training_s = process.training_s
    return {
        "data_wait": process.data_wait_s / training_s,
        "ckpt": process.ckpt_blocking_s / training_s,
        "passes": process.other_s / training_s,
    }


def _stacks(store: JobStore, truth: dict[str, Any]) -> dict[str, int]:
    """The product's samples of the training, by state."""
    states: dict[str, int] = {}
    for row in store.table("stacks").to_pylist():
        start_ns, end_ns = row["mono_ns"] - row["interval_ns"], row["mono_ns"]
        inside = truth["begin_ns"] <= start_ns and end_ns <= truth["end_ns"]
        if inside and row["pid"] == truth["pid"] and row["role"] == "rank":
            states[row["state"]] = states.get(row["state"], 0) + row["samples"]
    return states


def _parts(states: dict[str, int]) -> dict[str, float]:
    total = sum(states.values())
    return {state: states.get(state, 0) / total if total else 0.0 for state in STATES}


def _covered(truth: dict[str, Any], spans: Sequence[Sequence[int]]) -> float:
    """The share of the training that `spans` cover."""
    begin, end = truth["begin_ns"], truth["end_ns"]
    inside = sum(max(0, min(end, to) - max(begin, since)) for since, to in spans)
    return float(inside / (end - begin))


@contextmanager
def _started(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of our own; gone at the end, whatever happened."""
    with log.open("wb") as said:
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=said, stderr=said)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)


def _command(program: str, data: Path) -> list[str]:
    return [sys.executable, "-W", "ignore", str(PROGRAMS / f"{program}.py"), str(data)]


def _run(command: list[str], timeout_s: float = 300.0) -> None:
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def _shown(shares: dict[str, float]) -> str:
    return f"wait {shares['data_wait']:.1%} save {shares['ckpt']:.1%}"
