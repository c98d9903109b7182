"""The process table as several parts of the analysis need it, read once for all of them."""

from __future__ import annotations

import polars as pl

from slurm_io.analysis.inputs import Tables

_COLUMNS = (
    "mono_ns", "interval_ns", "pid", "rank", "role", "cpu_ns", "majflt", "syscr", "rchar_bytes",
    "read_bytes", "blkio_delay_ns", "main_ns", "queue_ns",
)  # fmt: skip


def loader_processes(tables: Tables, every: int) -> pl.DataFrame:
    """Rows of ranks and workers, of each `every`-th second; a null rank becomes -1. Columns: node
    mono_ns interval_ns pid rank role cpu_ns majflt syscr rchar_bytes read_bytes blkio_delay_ns
    main_ns queue_ns."""
    known = tables.kept.get("loader_processes")
    if known is None or known[0] != every:
        known = tables.kept["loader_processes"] = (every, _read(tables, every))
    found: pl.DataFrame = known[1]
    return found


def _read(tables: Tables, every: int) -> pl.DataFrame:
    rows = tables.frame("process", _COLUMNS, every).drop_nulls(["mono_ns", "interval_ns"])
    return rows.filter(pl.col("role").is_in(["rank", "worker"])).with_columns(
        pl.col("rank").fill_null(-1)
    )
