"""Runs one scenario of the grid under a tool and reads the verdict in the tool's own words.

A tool's words are put into ours: a verdict of the report contract ("not-storage" for anything else
that is found wrong), or "input" for a wait for data without a cause.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.peers import free_port

from tests.grid.model import Scenario
from tests.grid.places import opened_lab
from tests.labs.train import read_truth, storage_idle_share, train_environment

PROGRAM = Path(__file__).with_name("lab_under_peer.py")
RUN_TIMEOUT_S = 600.0
_INPUT_CAUSES = frozenset({"storage", "cpu-prep", "pipeline", "not-proven"})


@dataclass(frozen=True)
class Said:
    """`word` is the tool's verdict in our words, `text` the beginning of what it printed."""

    word: str
    text: str


@dataclass(frozen=True)
class Cost:
    """`cpu_s`: user and system time of the whole tree, the tool's processes included. `busy`: the
    part of the machine's CPUs that was in use meanwhile, by whomever.
    """

    cpu_s: float
    wall_s: float
    busy: float


@dataclass(frozen=True)
class Run:
    """One run. `truth`: the lab's share of training time lost to storage. `said` is None without a
    tool.
    """

    said: Said | None
    cost: Cost
    steps: int
    truth: float


@dataclass(frozen=True)
class Tool:
    """`command` makes the whole command of the program's arguments, `read` finds the verdict."""

    name: str
    command: Callable[[str, Path, Sequence[str]], list[str]]
    read: Callable[[str, Path], Said | None]


def run(tool: Tool, python: str, scenario: Scenario, room: Path) -> Run:
    """The scenario from fresh files in the empty folder `room`, trained by `python`."""
    with opened_lab(scenario, room) as lab:
        options = {"truth": room / "truth", **scenario.train, **lab.options(0)}
        command = lab.in_its_group(tool.command(python, room, _as_arguments(options)))
        cost = _timed(command, room, lab.environment(0))
    ranks = read_truth(room / "truth")
    return Run(tool.read(python, room), cost, ranks[0].steps, storage_idle_share(ranks))


def judge(word: str, scenario: Scenario) -> str:
    """right | no cause | not proven | missed | wrong."""
    if word in scenario.verdicts:
        return "right"
    if word == "input" and scenario.verdicts & _INPUT_CAUSES:
        return "no cause"
    if word == "not-proven":
        return "not proven"
    return "missed" if word == "healthy" else "wrong"


def _as_arguments(options: Mapping[str, object]) -> list[str]:
    arguments = []
    for name, value in options.items():
        if value is not None and value is not False:
            arguments.append("--" + name.replace("_", "-"))
            arguments += [] if value is True else [str(value)]
    return arguments


def _timed(command: Sequence[str], room: Path, environment: Mapping[str, str]) -> Cost:
    """What the command took; SystemExit with the end of its output when it fails."""
    log = room / "log"
    before, idle_s = os.times(), _idle_s()
    with log.open("wb") as said:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=room,
            env=train_environment(_without_ranks() | dict(environment)),
            timeout=RUN_TIMEOUT_S, check=False,
        )  # fmt: skip
    after, idle_s = os.times(), _idle_s() - idle_s
    if done.returncode != 0:
        end = log.read_text(errors="replace")[-2000:]
        raise SystemExit(f"{' '.join(command)}\nended with exit code {done.returncode}: {end}")
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    wall_s = after.elapsed - before.elapsed
    return Cost(used, wall_s, 1 - idle_s / (wall_s * (os.cpu_count() or 1)))


def _idle_s() -> float:
    """How long all CPUs were idle or waited for I/O since boot (proc_stat(5))."""
    fields = Path("/proc/stat").read_text().split(maxsplit=6)
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def _without_ranks() -> dict[str, str]:
    foreign = ("SLURM_", "RANK", "WORLD_SIZE", "LOCAL_RANK", "TRACEML_", "GPUPROF_")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


def _plain(python: str, room: Path, arguments: Sequence[str]) -> list[str]:
    return [python, os.fspath(PROGRAM), "none", *arguments]


def _ours(python: str, room: Path, arguments: Sequence[str]) -> list[str]:
    profiled = [sys.executable, "-m", "slurm_io", "run", "-o", os.fspath(room / "store"), "--"]
    return [*profiled, *_plain(python, room, arguments)]


def _read_ours(python: str, room: Path) -> Said:
    report = json.loads((room / "store" / "report.json").read_text())
    findings = ", ".join(
        f"{one['rule']} {one['title']} ({one['confidence']})" for one in report["findings"]
    )
    share = (report["idle"]["storage"] or {}).get("value")
    lost = "unknown" if share is None else f"{share:.1%}"
    text = f"{report['verdict']}, storage {lost}: {findings or 'no finding'}"
    return Said(report["verdict"], text.replace(f"{room}/", ""))


def _traceml(python: str, room: Path, arguments: Sequence[str]) -> list[str]:
    port, other = str(free_port()), str(free_port())
    launcher = [os.fspath(Path(python).with_name("traceml")), "run", os.fspath(PROGRAM)]
    where = ["--logs-dir", os.fspath(room / "traceml"), "--run-name", "lab"]
    ports = ["--aggregator-port", port, "--master-port", other]
    return [*launcher, *where, *ports, "--args", "traceml", *arguments]


_TRACEML_WORDS = {
    "INPUT_BOUND": "input",
    "INPUT_STRAGGLER": "input",
    "COMPUTE_BOUND": "healthy",
    "BALANCED": "healthy",
    "NO_CLEAR_PERFORMANCE_BOTTLENECK": "healthy",
    "NO_DATA": "not-proven",
    "WARMUP": "not-proven",
    "INCOMPLETE_DATA": "not-proven",
    "INSUFFICIENT_DATA": "not-proven",
}


def _read_traceml(python: str, room: Path) -> Said:
    summary = json.loads((room / "traceml" / "lab" / "final_summary.json").read_text())
    found: dict[str, Any] = summary["primary_diagnosis"]
    word = _TRACEML_WORDS.get(str(found.get("kind")), "not-storage")
    parts = ("status", "severity", "summary", "action")
    return Said(word, " ".join(str(found.get(part) or "") for part in parts))


def _gpuprof(python: str, room: Path, arguments: Sequence[str]) -> list[str]:
    return [python, os.fspath(PROGRAM), "gpuprof", *arguments]


_GPUPROF_WORDS = (  # the first that is in a title of high or medium severity
    ("I/O-bound", "storage"),
    ("CPU-bound", "cpu-prep"),
    ("waiting on the loader", "input"),
    ("refetch", "input"),
)


def _read_gpuprof(python: str, room: Path) -> Said:
    """What its own command says of the run."""
    command = [python, "-m", "gpuprof", "insights", os.fspath(room / "gpuprof.db"), "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    insights = json.loads(done.stdout)["insights"]
    graver = [one["title"] for one in insights if one["severity"] in ("high", "medium")]
    named = [word for mark, word in _GPUPROF_WORDS if any(mark in title for title in graver)]
    word = named[0] if named else "not-storage" if graver else "healthy"
    return Said(word, "; ".join(one["title"] for one in insights) or "no insight")


PLAIN = Tool("plain", _plain, lambda python, room: None)
TOOLS = (
    Tool("slurm-io", _ours, _read_ours),
    Tool("TraceML", _traceml, _read_traceml),
    Tool("gpuprof", _gpuprof, _read_gpuprof),
)
