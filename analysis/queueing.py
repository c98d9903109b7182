"""Takes back from `cpu` what was only queueing for a CPU after a storage wait.

A sample says that a worker is runnable, not that it runs: a process woken from a read waits its
turn, and a busy node makes that longer. How long the workers really ran is an exact counter
(utime + stime). Where the samples say more CPU than the counter, the rest was queueing, and belongs
to whatever the workers queued between: in each second it is split over storage and CPU as that
second's own samples are. Seconds without storage samples keep all of theirs: a loader that burns
CPU on too few cores stays a CPU matter.

Only for workers: a rank's own counter holds its training step too. Where nobody knows which of a
rank's samples were its step (:mod:`.stack_own`), both are of all its time, and comparable again.
"""

from __future__ import annotations

import polars as pl

from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.process_table import loader_processes
from slurm_io.analysis.samples import COUNTS

_COLUMNS = ("mono_ns", "interval_ns", "rank", "role", "cpu_ns")


def relieve(
    evidence: pl.DataFrame, samples: pl.DataFrame, tables: Tables, every: int
) -> pl.DataFrame:
    """`evidence` (:func:`.samples.explain`) with queueing moved from cpu to storage and net."""
    workers = samples.filter(pl.col("role") == "worker")
    if workers.is_empty():
        return evidence
    shares = really_running(workers, tables, every, "worker")
    joined = evidence.join(shares, on="proc", how="left")
    queued = pl.col("cpu") * (1 - pl.col("real").fill_null(1))
    blocked = pl.col("storage") + pl.col("net")
    moved = queued * blocked / (blocked + pl.col("cpu") - queued)
    joined = joined.with_columns(
        pl.when(blocked > 0).then(moved).otherwise(0.0).alias("moved"), blocked.alias("blocked")
    )
    part = pl.when(pl.col("blocked") > 0).then(pl.col("moved") / pl.col("blocked")).otherwise(0.0)
    return joined.with_columns(
        (pl.col("cpu") - pl.col("moved")).alias("cpu"),
        (pl.col("storage") * (1 + part)).alias("storage"),
        (pl.col("net") * (1 + part)).alias("net"),
    ).select(evidence.columns)


def really_running(samples: pl.DataFrame, tables: Tables, every: int, role: str) -> pl.DataFrame:
    """(proc, real): of what looked like CPU in `samples` of that role, the part that was; unknown
    or noisy counters change nothing (1)."""
    running = _running(samples, tables, every, role)
    shares = _runnable(samples).join(running, on="proc", how="left")
    real = (pl.col("running") / pl.col("runnable")).clip(0, 1).fill_null(1).fill_nan(1)
    return shares.select("proc", real.alias("real"))


def _runnable(workers: pl.DataFrame) -> pl.DataFrame:
    """(proc, runnable): share of the workers' samples, in all phases, that looked like CPU."""
    total = pl.sum_horizontal(pl.col(f"n_{name}").sum() for name in COUNTS)
    return workers.group_by("proc").agg((pl.col("n_cpu").sum() / total).alias("runnable"))


def _running(workers: pl.DataFrame, tables: Tables, every: int, role: str) -> pl.DataFrame:
    """(proc, running): CPU time of the processes over their time, while they were sampled."""
    spans = workers.group_by("proc", "node", "rank").agg(
        (pl.col("mono_ns") - pl.col("interval_ns")).min().alias("from"),
        pl.col("mono_ns").max().alias("to"),
    )
    counters = (
        loader_processes(tables, every)
        .select("node", *_COLUMNS)
        .filter(pl.col("role") == role)
        .drop_nulls("cpu_ns")
    )
    inside = counters.join(spans, on=["node", "rank"]).filter(
        (pl.col("mono_ns") > pl.col("from")) & (pl.col("mono_ns") <= pl.col("to") + 1_000_000_000)
    )
    return inside.group_by("proc").agg(
        (pl.col("cpu_ns").sum() / pl.col("interval_ns").sum()).alias("running")
    )
