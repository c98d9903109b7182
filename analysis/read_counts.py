"""Counters of rows that cover intervals, added up over the pieces of :mod:`.read_slices`.

A row whose interval lies across the border of two pieces is shared out by time.
"""

from __future__ import annotations

import polars as pl

from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.process_table import loader_processes
from slurm_io.analysis.samples import assign
from slurm_io.analysis.timeline import Timeline

_PROCESS_COLUMNS = (
    "mono_ns", "interval_ns", "rank", "role", "cpu_ns", "majflt", "rchar_bytes", "read_bytes",
)  # fmt: skip
_CLIENT_COLUMNS = ("mono_ns", "interval_ns", "mount", "fstype", "source", "op_class", "bytes")
_LONGEST_NS = 600_000_000_000  # no row of these tables covers more: damage


def process_rows(tables: Tables, every: int) -> pl.DataFrame:
    """Rows of ranks and workers, every so many-th second."""
    rows = loader_processes(tables, every).select("node", *_PROCESS_COLUMNS)
    return rows.filter(pl.col("interval_ns").is_between(1, _LONGEST_NS))


def of_readers(rows: pl.DataFrame, timeline: Timeline) -> pl.DataFrame:
    """Rows of the processes that read for a loader, with their `owner` (proc): its workers, or
    without workers the rank and its descendants. A rank with workers reads from their pipes."""
    kinds = pl.DataFrame(
        [(process.proc, process.has_workers) for process in timeline.processes],
        schema={"proc": pl.Int32, "has_workers": pl.Boolean},
        orient="row",
    )
    placed = assign(rows, timeline.rows).join(kinds, on="proc")
    reads = ~pl.col("has_workers") | (pl.col("role") == "worker")
    return placed.filter(reads).rename({"proc": "owner"})


def client_rows(tables: Tables, every: int) -> pl.DataFrame:
    """Reads of file system clients."""
    raw = tables.frame("fsclient", _CLIENT_COLUMNS, every).drop_nulls(["mono_ns", "interval_ns"])
    return raw.filter(
        (pl.col("op_class") == "read") & pl.col("interval_ns").is_between(1, _LONGEST_NS)
    )


def share_out(rows: pl.DataFrame, pieces: pl.DataFrame) -> pl.DataFrame:
    """`rows` (owner, mono_ns, interval_ns, …) with `slice` and `weight`, the part of the interval
    that lies in it: up to two rows for each, as pieces are longer than intervals."""
    numbered = pieces.with_row_index("piece").sort("start")
    ends = rows.with_columns((pl.col("mono_ns") - 1).alias("at"))
    last = _placed(ends, numbered)
    begin = pl.col("mono_ns") - pl.col("interval_ns")
    # Most rows begin and end in the same piece: only the others are looked up once more.
    across = last.filter((begin < pl.col("start")) | pl.col("piece").is_null())
    earlier = _placed(across.select(*rows.columns, begin.alias("at")), numbered)
    both = pl.concat([last, earlier]).drop_nulls("piece")
    overlap = pl.min_horizontal("end", "mono_ns") - pl.max_horizontal("start", begin)
    weighed = both.with_columns((overlap / pl.col("interval_ns")).alias("weight"))
    return weighed.filter(pl.col("weight") > 0).drop("at", "start", "end", "piece")


def _placed(rows: pl.DataFrame, numbered: pl.DataFrame) -> pl.DataFrame:
    """Each row with the last piece of its owner that begins at or before `at`."""
    return rows.sort("at").join_asof(
        numbered, left_on="at", right_on="start", by="owner", strategy="backward",
        check_sortedness=False,
    )  # fmt: skip
