"""A made-up /proc and /sys in a folder, and collectors run on it tick by tick."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slurm_io.collectors.base import Collector, Context, Tick
from slurm_io.store.schema import TABLES

FIXTURES = Path(__file__).parents[1] / "fixtures" / "host"
SECOND_NS = 1_000_000_000


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """Write each file below `root`, folders made as needed."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def context(
    root: Path, cgroup_paths: Sequence[str] = (), capacity_mounts: Sequence[str] = ()
) -> Context:
    """A context whose /proc and /sys are `root`/proc and `root`/sys."""
    return Context(
        proc_root=root / "proc",
        sys_root=root / "sys",
        members=lambda: (),
        cgroup_paths=lambda: cgroup_paths,
        capacity_mounts=lambda: capacity_mounts,
        phase_of=lambda pid: ("none", None),
    )


def tick(second: float) -> Tick:
    """The tick `second` seconds after the first one."""
    mono_ns = 5 * SECOND_NS + int(second * SECOND_NS)
    return Tick(1_700_000_000 * SECOND_NS + mono_ns, mono_ns, None if second == 0 else SECOND_NS)


def rows_at(collector: Collector, second: float) -> list[dict[str, Any]]:
    """Rows of one tick by column name."""
    columns = TABLES[collector.table].column_names()
    return [dict(zip(columns, row, strict=True)) for row in collector.collect(tick(second))]
