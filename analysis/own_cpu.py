"""The CPU's part of waits in which the training thread read by itself: counted, not sampled.

Without workers the waiting thread does the reading, so its own CPU time in the wait (the hook asks
the kernel for it) is the least that the CPU can have held. The most is that and what all other
threads of the process ran, for a pool of threads may have worked for it. :mod:`.queueing` takes off
what looks say beyond; :func:`raise_to_own_cpu` adds what few looks have missed, and the other
causes keep their proportions.

``own_waits`` of the ranks in meta.json: ``[{loader, wait_ns, cpu_ns}]``, first batches left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from slurm_io.analysis.facts import mapping, ranks_of, whole
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.samples import CAUSES

_LEAST_WAIT_NS = 1_000_000_000
NOBODY = pl.DataFrame(schema={"proc": pl.Int32, "own": pl.Float64})
"""Of no process is it known."""


def own_cpu(rows: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    """(proc, own): of processes whose loaders have no workers, CPU time over waits.

    `rows`: training batches, with node, pid, proc, loader and workers.
    """
    told = pl.DataFrame(
        list(_told(tables)),
        schema={
            "node": pl.String, "pid": pl.Int32, "loader": pl.Int32,
            "wait_ns": pl.Int64, "cpu_ns": pl.Int64,
        },
        orient="row",
    ).unique(["node", "pid", "loader"], keep="none")  # fmt: skip
    alone = rows.filter(~pl.col("workers").any().over("proc")).select(
        pl.col("node").cast(pl.String), "pid", "loader", "proc"
    )
    known = alone.unique().join(told, on=["node", "pid", "loader"]).group_by("proc")
    sums = known.agg(pl.col("wait_ns", "cpu_ns").sum())
    enough = sums.filter(pl.col("wait_ns") >= _LEAST_WAIT_NS)
    return enough.select("proc", (pl.col("cpu_ns") / pl.col("wait_ns")).alias("own"))


def _told(tables: Tables) -> Iterator[tuple[str, int, int, int, int]]:
    for name, view in tables.store.nodes.items():
        for rank in ranks_of(view):
            pid, waits = whole(rank.get("pid")), rank.get("own_waits")
            for one in map(mapping, waits if isinstance(waits, list) else ()):
                loader, wait_ns, cpu_ns = (
                    whole(one.get(key)) for key in ("loader", "wait_ns", "cpu_ns")
                )
                if pid is None or loader is None or wait_ns is None or cpu_ns is None:
                    continue
                if 0 <= cpu_ns <= wait_ns and 0 < loader < 2**31 and 0 < pid < 2**31:
                    yield name, pid, loader, wait_ns, cpu_ns


def raise_to_own_cpu(shares: pl.DataFrame, rows: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """`shares` (row, p_<cause>, ...) whose mean p_cpu, weighted by the waits, is at least `own`."""
    if own.is_empty():
        return shares
    waits = rows.filter(~pl.col("first")).join(shares.select("row", "p_cpu"), on="row")
    weighted = (pl.col("p_cpu") * pl.col("wait_s")).sum() / pl.col("wait_s").sum()
    means = waits.group_by("proc").agg(weighted.alias("mean")).join(own, on="proc")
    factor = (1 - pl.col("own")) / (1 - pl.col("mean"))
    short = means.filter(pl.col("mean") < pl.col("own")).select("proc", factor.alias("factor"))
    if short.is_empty():
        return shares
    which = rows.select("row", "proc", "first").join(short, on="proc")
    marked = shares.join(
        which.filter(~pl.col("first")), on="row", how="left", maintain_order="left"
    )
    kept = pl.col("factor").fill_null(1.0)
    return marked.with_columns(
        (1 - (1 - pl.col("p_cpu")) * kept).alias("p_cpu"),
        *(pl.col(f"p_{name}") * kept for name in CAUSES if name != "cpu"),
    ).select(shares.columns)
