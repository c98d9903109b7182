"""A jump of the wall clock tears no series: everything resident runs on CLOCK_MONOTONIC.

UTC is asked once in a sampler's life, in :func:`slurm_io.sampler.main.sample`.
"""

from __future__ import annotations

import ast
from pathlib import Path

import slurm_io.collectors
import slurm_io.sampler

WALL_CLOCK = {"time", "time_ns", "gettimeofday", "now", "utcnow", "localtime", "CLOCK_REALTIME"}


def conversions(tree: ast.AST) -> list[ast.expr]:
    """``time.localtime(seconds)`` asks what a given moment is called, not what time it is."""
    return [
        node.func
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "localtime"
        and node.args
    ]


def wall_clock_uses(file: Path) -> list[str]:
    """``module.name`` of everything in a file that would look at the wall clock."""
    tree = ast.parse(file.read_text())
    asked = conversions(tree)
    return [
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("time", "datetime")
        and node.attr in WALL_CLOCK
        and node not in asked
    ]


def test_only_the_samplers_start_asks_for_utc() -> None:
    found = {}
    for package in (slurm_io.sampler, slurm_io.collectors):
        for file in Path(package.__path__[0]).rglob("*.py"):
            uses = wall_clock_uses(file)
            if uses:
                found[file.name] = uses
    assert found == {"main.py": ["time.time_ns"]}


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    file = tmp_path / "clock.py"
    file.write_text(
        "import time\nbegan = time.time()\nlater = time.monotonic()\n"
        "now = time.localtime()\nthen = time.localtime(later)\n"
    )
    assert wall_clock_uses(file) == ["time.time", "time.localtime"]
