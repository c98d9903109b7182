"""The verdicts of slurm-io, TraceML and gpuprof on the same runs, and what each costs.

    python bench/verdict_peers.py --traceml-python PATH [--only NAME,NAME] [--keep DIR]

PATH is a Python with torch, traceml-ai and gpuprof in it; without one, a line says how to make it.
Scenarios of tests/grid, each trained four times one after the other: without a tool and under each
of the three, always by that Python and with the same program (bench/lab/lab_under_peer.py). A wait
without a cause is "no cause": true, and no help against wrong blame. CPU is of the whole process
tree, start, sealing and report included; what is plain's too is in all.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.verdict_tools import PLAIN, TOOLS, Run, judge, run

from tests.grid.model import Scenario
from tests.grid.scenarios import SCENARIOS
from tests.labs.slowfs import fuse_missing

NAMES = (
    "slow-read-2-workers",
    "cpu-prep-2-workers",
    "sleeping-loader",
    "healthy",
    "checkpoint-slow",
    "index-growth",
)
INSTALL = "pip install torch==2.13.0 traceml-ai gpuprof psutil, in a virtual environment of its own"
NEEDED = "import torch, traceml_ai, gpuprof, psutil"
TEXT_WIDTH = 150


def main() -> int:
    """Run and print; exit code 0 also when the peers or FUSE are not here."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traceml-python", default=sys.executable)
    parser.add_argument("--only", default=",".join(NAMES))
    parser.add_argument("--keep", type=Path, help="folder for what the runs leave")
    options = parser.parse_args()
    if why := _missing(options.traceml_python) or fuse_missing():
        print(f"not measured: {why}")
        return 0
    known = {scenario.name: scenario for scenario in SCENARIOS}
    wanted = options.only.split(",")
    for name in sorted(set(wanted) - set(known)):
        print(f"{name}: the grid has no such scenario, left out")
    kept = nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory()
    with kept as folder:
        table = [
            (known[name], run_all(options.traceml_python, known[name], Path(folder) / name))
            for name in wanted
            if name in known
        ]
    print_verdicts(table)
    print_cost(table)
    return 0


def _missing(python: str) -> str | None:
    try:
        done = subprocess.run([python, "-c", NEEDED], capture_output=True, text=True, check=False)
    except OSError as error:
        return f"cannot run {python}: {error.strerror}; name a Python with the peers: {INSTALL}"
    if done.returncode == 0:
        return None
    told = done.stderr.strip().splitlines()[-1:] or ["it failed"]
    return f"{python}: {told[0]}; {INSTALL}"


def run_all(python: str, scenario: Scenario, room: Path) -> dict[str, Run]:
    """Tool name -> its run, `plain` among them."""
    runs = {}
    for tool in (PLAIN, *TOOLS):
        (room / tool.name).mkdir(parents=True)
        runs[tool.name] = run(tool, python, scenario, room / tool.name)
        print(f"{scenario.name}, {tool.name}: {runs[tool.name].cost.wall_s:.0f} s", file=sys.stderr)
    return runs


def print_verdicts(table: list[tuple[Scenario, dict[str, Run]]]) -> None:
    """Per scenario the truth, each verdict with its judgement, then everybody's own words."""
    heads = "".join(f"{tool.name:>26}" for tool in TOOLS)
    print(f"{'scenario':24}{'truth':14}{heads}")
    score: dict[str, Counter[str]] = {tool.name: Counter() for tool in TOOLS}
    for scenario, runs in table:
        cells = ""
        for tool in TOOLS:
            said = runs[tool.name].said
            assert said is not None
            judged = judge(said.word, scenario)
            score[tool.name][judged] += 1
            cells += f"{f'{said.word} ({judged})':>26}"
        print(f"{scenario.name:24}{' or '.join(sorted(scenario.verdicts)):14.14}{cells}")
    for name, counts in score.items():
        print(f"{name}: " + ", ".join(f"{count} {word}" for word, count in counts.most_common()))
    print("\nin their own words:")
    for scenario, runs in table:
        lost = runs["slurm-io"].truth
        print(f"{scenario.name} (storage in slurm-io's run, by the lab: {lost:.1%} of training)")
        for tool in TOOLS:
            one = runs[tool.name]
            told = one.said.text[:TEXT_WIDTH] if one.said else ""
            print(f"  {tool.name:10}(CPUs {one.cost.busy:.0%} busy) {told}")


def print_cost(table: list[tuple[Scenario, dict[str, Run]]]) -> None:
    """CPU of the whole tree as a multiple of plain's, and what it adds a step."""
    print(f"\n{'CPU of all processes':24}{'plain s':>9}" + "".join(
        f"{tool.name:>12}{'ms/step':>9}" for tool in TOOLS
    ))  # fmt: skip
    for scenario, runs in table:
        plain = runs["plain"].cost
        cells = ""
        for tool in TOOLS:
            cost = runs[tool.name].cost
            added_ms = 1e3 * (cost.cpu_s - plain.cpu_s) / runs[tool.name].steps
            cells += f"{cost.cpu_s / plain.cpu_s:11.2f}x{added_ms:9.1f}"
        print(f"{scenario.name:24}{plain.cpu_s:9.1f}{cells}")


if __name__ == "__main__":
    sys.exit(main())
