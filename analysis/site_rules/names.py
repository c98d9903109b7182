"""What an expression can name: fields of the report, and columns of the sampler's tables.

docs/site-rules.md lists both, made from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from slurm_io.analysis.site_rules.units import Unit, unit_of
from slurm_io.store.schema import TABLES, Column

# name -> (unit, meaning, keys that lead to it in report.json)
_FIELDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "idle.storage": ("share", "training GPU time lost to storage", ("idle", "storage", "value")),
    "idle.storage_low": ("share", "its lower end", ("idle", "storage", "low")),
    "idle.storage_high": ("share", "its upper end", ("idle", "storage", "high")),
    "idle.data_storage": ("share", "of it, waits for data on storage", ("idle", "data_storage")),
    "idle.data_cpu": ("share", "waits for preparation on the CPU", ("idle", "data_cpu")),
    "idle.data_pipeline": ("share", "waits for the loader's machinery", ("idle", "data_pipeline")),
    "idle.data_unknown": ("share", "waits of an unknown cause", ("idle", "data_unknown")),
    "idle.checkpoint": ("share", "blocking checkpoints", ("idle", "checkpoint")),
    "idle.startup_share": (
        "share",
        "start-up, of start-up and training",
        ("idle", "startup_share"),
    ),
    "time.wall_s": ("s", "time the job was watched", ("time", "wall_s")),
    "time.startup_s": (
        "s",
        "from the start of a rank, imports and all, to its first step",
        ("time", "startup_s"),
    ),
    "time.training_s": ("s", "training time", ("time", "training_s")),
    "time.steps": ("", "training steps", ("time", "steps")),
    "time.step_p50_s": ("s", "median step", ("time", "step_p50_s")),
    "time.step_p99_s": ("s", "step at P99", ("time", "step_p99_s")),
    "time.throughput": ("1/s", "steps a second", ("time", "throughput")),
    "job.nodes": ("", "nodes of the job", ("job", "nodes")),
    "job.ranks": ("", "ranks seen", ("job", "ranks")),
    "job.gpus": ("", "GPUs of the job", ("job", "gpus")),
    "coverage.workers_seen": ("", "loader workers seen", ("coverage", "workers_seen")),
    "coverage.gaps_s": ("s", "training nobody recorded", ("coverage", "gaps_s")),
    "overhead.cpu_s": ("s", "CPU time of the profiler", ("overhead", "cpu_s")),
    "overhead.cpu_share": ("share", "of one core", ("overhead", "cpu_share")),
    "overhead.rss_mb": ("MiB", "memory of the profiler", ("overhead", "rss_mb")),
}
SERIES_TABLES = (
    "block", "capacity", "cgroup", "fsclient", "gpu", "log", "node", "process", "steps", "waits",
)  # fmt: skip
_NUMBERS = ("int64", "int32", "float64", "float32", "bool")
_NO_SERIES = ("ts_ns", "mono_ns", "interval_ns")


@dataclass(frozen=True)
class Field:
    """One number of the report, or (of a list) how long it is."""

    name: str
    unit: Unit
    doc: str
    path: tuple[str, ...]


@dataclass(frozen=True)
class Series:
    """One column of a table, a value a row."""

    table: str
    column: Column
    unit: Unit

    @property
    def name(self) -> str:
        """As an expression writes it."""
        return f"{self.table}.{self.column.name}"


def fields() -> dict[str, Field]:
    """All fields by name."""
    return {
        name: Field(name, unit_of(unit), doc, path) for name, (unit, doc, path) in _FIELDS.items()
    }


def series() -> dict[str, Series]:
    """All series by name; times, texts and what a row is named by are none."""
    found = {}
    for table in SERIES_TABLES:
        for column in TABLES[table].columns:
            is_name = column.name in (*_NO_SERIES, *TABLES[table].key)
            if column.type in _NUMBERS and not is_name:
                one = Series(table, column, unit_of(column.unit))
                found[one.name] = one
    return found


def filters(table: str) -> dict[str, Column]:
    """Columns of a table that rows can be chosen by: text, and the numbers of its key."""
    known = TABLES[table]
    return {
        column.name: column
        for column in known.columns
        if column.name in known.key or column.type == "string"
    }


def nearest(name: str, known: list[str]) -> str:
    """``; did you mean …?``, or nothing where nothing is near."""
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""
