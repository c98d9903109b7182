"""What a prolog costs a job's start: CPU and wall, beside a bare interpreter and a shell script.

    python bench/prolog_cost.py [--rounds 20] [--files 1000] [--json]

Each line is one way to start it, as slurmd would: prolog.sh with nothing to check, with the node's
checks, and with a dataset of `files` and of ten times as many. CPU is of all processes that ended
with it (the sampler, which lives on, is switched off). The rounds of all lines go in turns; the
least of them is what the work takes, the median what this machine made of it. The budget is 0.15 s
of CPU and a second of wall time. Needs root, as slurmd has it.

The peer stands for LBNL NHC, which is not packaged: what a node health check in bash runs at the
least, df, mount, lsblk, the end of dmesg, and mdstat and meminfo read. It has no deadline and knows
no dataset.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from slurm_io.config import load
from slurm_io.prolog.entry_scripts import Filling, script_text

BUDGET_CPU_MS = 150
BUDGET_WALL_MS = 1000
START = "import sys; sys.path += sys.argv.pop(1).split(':'); "
LOAD_CHECKS = """
from importlib import import_module
from slurm_io.spec import JobSpec
for check in n.CHECKS.discover().values():
    for module in check.modules(JobSpec()):
        import_module(module)
"""
PEER = "bash: a health check"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
PEER_COMMANDS = {
    "df": "df -l",
    "mount": "mount",
    "lsblk": "lsblk",
    "dmesg": "dmesg | tail -n 200",
    "cat": "cat /proc/mdstat /proc/meminfo",
}
ENVIRONMENT = {
    "SLURM_CLUSTER_NAME": "bench",
    "SLURMD_NODENAME": "n1",
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_UID": "5",
    "SLURM_JOB_GID": "60",
    "SLURM_JOB_USER": "games",
    "SLURM_NODELIST": "n1",
}
CONFIG = """\
runtime_dir = "{root}/run"
spool_dir = "{root}/spool"
state_dir = "{root}/lib"
log_file = "{root}/hooks.log"
[sampler]
enabled = false
[checks]
enabled = {checks}
jitter_s = 0
[check.mounts]
required = ["/", "/proc"]
[dataset.small]
local = "{root}/small"
manifest = "{root}/small.jsonl"
[dataset.large]
local = "{root}/large"
manifest = "{root}/large.jsonl"
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if os.geteuid() != 0:
        print("needs root: slurmd runs prologs as root, and they hand folders to users")
        return
    root = Path(tempfile.mkdtemp(prefix="sio-bench-"))
    root.chmod(0o755)
    try:
        ways = prepare(root, given.files)
        found = measure(ways, given.rounds)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(json.dumps(found, indent=2) if given.json else as_text(found))


def prepare(root: Path, files: int) -> dict[str, Callable[[], None]]:
    """Name of a line -> one run of it."""
    python = sys.executable
    filling = write_scripts(root)
    make_dataset(root, "small", files)
    make_dataset(root, "large", 10 * files)
    start = [python, "-I", "-S", "-c"]
    job = {**ENVIRONMENT, "SLURM_CONF": "/nonexistent"}

    def asking(request: str) -> Mapping[str, str]:
        return {**job, "SLURM_JOB_COMMENT": f"slurm-io: {request}"}

    imports = f"{START}import slurm_io.prolog.hook, slurm_io.prolog.node_checks as n"
    return {
        "sh": lambda: run(["/bin/sh", "-c", ":"]),
        PEER: lambda: run(["/bin/bash", "-c", peer_script()], {"PATH": PATH}),
        "python -I, bare": lambda: run([python, "-I", "-c", "pass"]),
        "python -I -S, bare": lambda: run([*start, "pass"]),
        "imports of the prolog": lambda: run([*start, imports, filling.packages]),
        "imports and all checks": lambda: run(
            [*start, f"{imports}; {LOAD_CHECKS}", filling.packages]
        ),
        "prolog without checks": lambda: run([str(root / "bare.sh")], job),
        "prolog": lambda: run([str(root / "prolog.sh")], job),
        f"prolog, {files} files": lambda: run([str(root / "prolog.sh")], asking("dataset=small")),
        f"prolog, {10 * files} files": lambda: run(
            [str(root / "prolog.sh")], asking("dataset=large")
        ),
    }


def write_scripts(root: Path) -> Filling:
    """prolog.sh, and bare.sh of a site without checks."""
    for name, checks in (("bare", "false"), ("prolog", "true")):
        config = root / f"{name}.toml"
        config.write_text(CONFIG.format(root=root, checks=checks))
        filling = replace(Filling.of(load(str(config)), str(config)), limit_s=20)
        script = root / f"{name}.sh"
        script.write_text(script_text("prolog.sh", filling))
        script.chmod(0o755)
    return filling


def make_dataset(root: Path, name: str, files: int) -> None:
    """A folder of small files and its manifest, verified and recorded on this node."""
    folder = root / name
    for number in range(files):
        path = folder / f"{number % 100:02}" / f"shard-{number:06}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number)
    slurm_io = [sys.executable, "-m", "slurm_io", "dataset"]
    manifest = root / f"{name}.jsonl"
    run([*slurm_io, "manifest", "build", str(folder), "-o", str(manifest), "--form", "jsonl"])
    config = ["--config", str(root / "prolog.toml"), "--level", "4", "--record"]
    run([*slurm_io, "verify", name, *config], {"SLURMD_NODENAME": "n1"})


def run(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """One run to its end; a failure ends the bench."""
    done = subprocess.run(argv, env=dict(environment or {}), capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{argv}: exit code {done.returncode}: {done.stderr.decode()[-500:]}")


def measure(ways: Mapping[str, Callable[[], None]], rounds: int) -> dict[str, dict[str, float]]:
    """Median CPU and wall of each line, ms, and the largest wall."""
    cpu_ms: dict[str, list[float]] = {name: [] for name in ways}
    wall_ms: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            way()
            after, ended_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            user_s = after.ru_utime - before.ru_utime
            cpu_ms[name].append((user_s + after.ru_stime - before.ru_stime) * 1000)
            wall_ms[name].append((ended_s - began_s) * 1000)
    return {
        name: {
            "cpu_ms": round(statistics.median(cpu_ms[name]), 1),
            "cpu_ms_least": round(min(cpu_ms[name]), 1),
            "wall_ms": round(statistics.median(wall_ms[name]), 1),
            "wall_ms_most": round(max(wall_ms[name]), 1),
        }
        for name in ways
    }


def peer_script() -> str:
    """Those of the peer's commands that this machine has."""
    there = (line for tool, line in PEER_COMMANDS.items() if shutil.which(tool, path=PATH))
    return "; ".join((*there, "true"))


def as_text(found: Mapping[str, Mapping[str, float]]) -> str:
    """One line each, with the ratios of the least CPU to a bare interpreter's and the peer's."""
    bare, peer = (found[name]["cpu_ms_least"] for name in ("python -I -S, bare", PEER))
    heads = ("CPU ms", "least", "x bare", "x bash", "wall ms", "most")
    lines = [f"{'':<24}" + "".join(f"{head:>9}" for head in heads)]
    for name, one in found.items():
        least = one["cpu_ms_least"]
        figures = (one["cpu_ms"], least, least / bare, least / peer)
        shown = (*figures, one["wall_ms"], one["wall_ms_most"])
        lines.append(f"{name:<24}" + "".join(f"{figure:>9.1f}" for figure in shown))
    lines.append(f"budget: {BUDGET_CPU_MS} ms CPU, {BUDGET_WALL_MS} ms wall")
    lines.append(f"the peer: {peer_script()}")
    lines.append(f"load average: {os.getloadavg()[0]:.1f} at the end, {os.cpu_count()} processors")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
