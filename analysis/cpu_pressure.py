"""How long tasks of a node were ready to run and found no CPU while the job trained (PSI cpu some).

Where CPUs are short, handing a batch over is late because nobody runs, and looks like the loader's
own machinery: those two cannot be told apart then.
"""

from __future__ import annotations

import polars as pl

from slurm_io.analysis.host_rows import rows_between
from slurm_io.analysis.inputs import Tables

_LEAST_ROWS = 5


def cpu_pressure(tables: Tables, spans: pl.DataFrame) -> float | None:
    """Share of the time between `spans`, on the node where it was largest; None: not recorded."""
    rows = rows_between(tables, spans, "node", ("psi_cpu_some_ns",)).rows
    rows = rows.drop_nulls("psi_cpu_some_ns")
    waited, covered = pl.col("psi_cpu_some_ns").sum(), pl.col("interval_ns").sum()
    shares = rows.group_by("node").agg((waited / covered).alias("share"), pl.len().alias("rows"))
    largest = shares.filter(pl.col("rows") >= _LEAST_ROWS)["share"].max()
    return float(largest) if isinstance(largest, (int, float)) else None
