"""Runs scenarios for real: lab, ``slurm-io run``, ``slurm-io report``, comparison.

    python -m tests.grid.runner [NAME ...] [--repeat N] [--keep DIR]

Each run's folder keeps ``store/`` (the job store), ``truth/`` (the stopwatch's files),
``run.log``, ``report.json``, ``report.txt`` and ``ledger.json`` (what slowfs injected).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.grid.judge import Outcome, judge
from tests.grid.scenarios import SCENARIOS, Scenario
from tests.labs.slowfs import REPOSITORY, SlowFs
from tests.labs.train import (
    make_dataset,
    read_truth,
    storage_idle_share,
    train_command,
    train_environment,
)

SLURM_IO = (sys.executable, "-m", "slurm_io")
RUN_TIMEOUT_S = 600
REPORT_TIMEOUT_S = 60


class GridError(RuntimeError):
    """The run or the report failed as such; the message holds the end of its output."""


def run_scenario(scenario: Scenario, folder: Path) -> Outcome:
    """Run one scenario in the empty or missing `folder` and judge its report."""
    started_s = time.monotonic()
    make_dataset(folder / "fast", scenario.files, scenario.file_bytes)
    (folder / "fast-checkpoints").mkdir()
    with _places(scenario, folder) as places:
        options = {**scenario.train, **places}
        data = options.pop("data")
        assert isinstance(data, Path)
        command = train_command(data, folder / "truth", options, scenario.ranks)
        how = [] if scenario.hook else ["--stacks"]
        arguments = ["run", *how, "-o", os.fspath(folder / "store"), "--", *command]
        _run(arguments, folder / "run.log", {} if scenario.hook else {"SLURM_IO_HOOK": "0"})
    report = _report(folder)
    truth = storage_idle_share(read_truth(folder / "truth"))
    return judge(scenario, report, truth, time.monotonic() - started_s)


@contextmanager
def _places(scenario: Scenario, folder: Path) -> Iterator[dict[str, object]]:
    """The job's folders by option name, those of `slow_places` on a slow mount."""
    fast: dict[str, object] = {"data": folder / "fast"}
    if scenario.train.get("checkpoint_every"):
        fast["checkpoint_dir"] = folder / "fast-checkpoints"
    if not scenario.needs_fuse:
        yield fast
        return
    backing = _backing(scenario, folder)
    with SlowFs(backing, folder / "slow", scenario.slow, cache=scenario.cache) as slow:
        yield fast | dict.fromkeys(scenario.slow_places, slow.mountpoint)
    (folder / "ledger.json").write_text(json.dumps(slow.ledger(), indent=1))


def _backing(scenario: Scenario, folder: Path) -> Path:
    # Checkpoints must not land among the items of the dataset.
    is_checkpoint = scenario.slow_places == frozenset({"checkpoint_dir"})
    return folder / ("fast-checkpoints" if is_checkpoint else "fast")


def _report(folder: Path) -> dict[str, Any]:
    """report.json and report.txt of the store, the first one read."""
    store = os.fspath(folder / "store")
    for suffix, form in (("json", "json"), ("txt", "text")):
        done = subprocess.run(
            [*SLURM_IO, "report", store, "-f", form],
            capture_output=True, text=True, timeout=REPORT_TIMEOUT_S, check=False, cwd=REPOSITORY,
        )  # fmt: skip
        if done.returncode != 0:
            raise GridError(f"slurm-io report -f {form}: exit {done.returncode}: {done.stderr}")
        (folder / f"report.{suffix}").write_text(done.stdout)
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def _run(arguments: list[str], log: Path, settings: Mapping[str, str]) -> None:
    with open(log, "wb") as output:
        done = subprocess.run(
            [*SLURM_IO, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env=train_environment(_without_settings(os.environ) | dict(settings)),
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
    if done.returncode != 0:
        tail = log.read_text(errors="replace")[-2000:]
        raise GridError(f"slurm-io run: exit {done.returncode}: {tail}")


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Neither a surrounding Slurm job nor a surrounding profile must show in a scenario."""
    foreign = ("SLURM_", "RANK", "WORLD_SIZE", "LOCAL_RANK")
    return {name: value for name, value in environment.items() if not name.startswith(foreign)}


HEAD = f"{'scenario':22} {'verdict':12} {'truth':>6} {'low':>6} {'value':>6} {'high':>6}  {'s':>4}"


def line(outcome: Outcome) -> str:
    """One line of the table."""
    shares = " ".join(
        f"{'-' if share is None else f'{share:.3f}':>6}"
        for share in (outcome.truth, outcome.low, outcome.value, outcome.high)
    )
    end = "ok" if not outcome.problems else "FAIL: " + "; ".join(outcome.problems)
    rules = ",".join(outcome.fired) or "-"
    head = f"{outcome.name:22} {outcome.verdict:12} {shares}  {outcome.wall_s:4.0f}"
    return f"{head}  {rules:12} {end}"


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 when every run of every scenario is as expected."""
    known = {scenario.name: scenario for scenario in SCENARIOS}
    parser = argparse.ArgumentParser(prog="python -m tests.grid.runner")
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios; default: all")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for what the runs leave")
    options = parser.parse_args(argv)
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"no scenario {', '.join(unknown)}; there are: {', '.join(known)}")
    chosen = [known[name] for name in options.names] or list(SCENARIOS)
    keep = options.keep or Path(tempfile.mkdtemp(prefix="slurm-io-grid-"))
    failed = _run_all(chosen, options.repeat, keep)
    print(f"{failed} of {len(chosen) * options.repeat} runs failed; artifacts in {keep}")
    return 1 if failed else 0


def _run_all(chosen: list[Scenario], repeat: int, keep: Path) -> int:
    print(HEAD)
    failed = 0
    for scenario in chosen:
        for number in range(repeat):
            try:
                outcome = run_scenario(scenario, keep / f"{scenario.name}-{number}")
            except (GridError, FileNotFoundError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"{scenario.name:22} ERROR {error}", flush=True)
                continue
            failed += bool(outcome.problems)
            print(line(outcome), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
