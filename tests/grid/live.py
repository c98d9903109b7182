"""Runs one scenario for real: lab, ``slurm-io run``, ``slurm-io report``, comparison.

The run's folder keeps ``store/`` (the job store), ``truth/`` (the stopwatch's files), ``run.log``,
``report.json``, ``report.txt`` and ``ledger.json`` (what slowfs injected).
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.grid.errors import GridError
from tests.grid.judge import Outcome, judge
from tests.grid.model import Scenario
from tests.grid.places import Lab, opened_lab
from tests.grid.reporting import SLURM_IO, report_of
from tests.labs.train import (
    read_truth,
    storage_idle_share,
    train_command,
    train_environment,
)

RUN_TIMEOUT_S = 600
PSI = Path("/proc/pressure/cpu")


def run_scenario(scenario: Scenario, folder: Path) -> Outcome:
    """Run one scenario in the empty or missing `folder` and judge its report."""
    started_s, waited_us = time.monotonic(), _waited_for_cpu_us()
    with opened_lab(scenario, folder) as lab:
        _run_all([_task(scenario, folder, lab, number) for number in range(_tasks(scenario))])
    busy = (_waited_for_cpu_us() - waited_us) / 1e6 / (time.monotonic() - started_s)
    (folder / "run.json").write_text(
        json.dumps({"busy": busy, "wall_s": time.monotonic() - started_s})
    )
    return judge_again(scenario, folder)


def judge_again(scenario: Scenario, folder: Path) -> Outcome:
    """What today's analysis says of what a run left in `folder`; FileNotFoundError if none did."""
    facts = json.loads((folder / "run.json").read_text())
    truth = storage_idle_share(read_truth(folder / "truth"))
    return judge(scenario, report_of(folder), truth, facts["wall_s"], facts["busy"])


def _tasks(scenario: Scenario) -> int:
    """Commands that are started: one under torchrun, or one for each rank of several nodes."""
    return scenario.ranks if scenario.nodes > 1 else 1


@dataclass(frozen=True)
class _Task:
    """One ``slurm-io run`` and where its output goes."""

    arguments: list[str]
    environment: dict[str, str]
    log: Path

    def start(self) -> subprocess.Popen[bytes]:
        """Started, not waited for."""
        with open(self.log, "wb") as output:
            return subprocess.Popen(
                self.arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.log.parent,
                env=self.environment,
            )


def _task(scenario: Scenario, folder: Path, lab: Lab, number: int) -> _Task:
    options = {**scenario.train, **lab.options(number)}
    data = options.pop("data")
    assert isinstance(data, Path)
    together = scenario.ranks if scenario.nodes == 1 else 1
    command = lab.on_its_cpus(train_command(data, folder / "truth", options, together))
    how = ["--no-report", *(["--stacks"] if scenario.stacks or not scenario.hook else [])]
    run = [*SLURM_IO, "run", *how, "-o", os.fspath(folder / "store"), "--", *command]
    hook = {} if scenario.hook else {"SLURM_IO_HOOK": "0"}
    environment = _without_settings(os.environ) | lab.environment(number) | hook
    return _Task(
        lab.in_its_group(run),
        train_environment(environment),
        folder / ("run.log" if number == 0 else f"run-{number}.log"),
    )


def _run_all(tasks: list[_Task]) -> None:
    """Raises GridError with the end of its output when one of them fails."""
    deadline_s = time.monotonic() + RUN_TIMEOUT_S
    running = [task.start() for task in tasks]
    try:
        for process in running:
            process.wait(max(1.0, deadline_s - time.monotonic()))
    finally:
        for process in running:
            if process.poll() is None:
                process.terminate()
                process.wait()
    for task, process in zip(tasks, running, strict=True):
        if process.returncode != 0:
            tail = task.log.read_text(errors="replace")[-2000:]
            raise GridError(f"slurm-io run: exit {process.returncode}: {tail}")


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Neither a surrounding Slurm job nor a surrounding profile must show in a scenario."""
    foreign = ("SLURM_", "RANK", "WORLD_SIZE", "LOCAL_RANK")
    return {name: value for name, value in environment.items() if not name.startswith(foreign)}


def _waited_for_cpu_us() -> int:
    """Time since boot in which somebody here waited for a CPU (PSI some); 0 where it is unknown."""
    try:
        return int(PSI.read_text().split("\n")[0].rpartition("total=")[2])
    except (OSError, ValueError):
        return 0
