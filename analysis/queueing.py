"""Takes back from `cpu` what only looked like it: a process was ready and did not run.

A sample says that a process does not sleep, not that it runs. Woken from a read it waits its turn:
behind others on a busy node, and behind the sampler itself where the two meet on one CPU (a reader
that wakes every millisecond, with the sampler on its CPU, is found ready in 7 % of the looks more
than it is; with the sampler on another one, in none). How long the processes really ran is an exact
counter (utime + stime), how long their main threads queued is another (`queue_ns`). Where samples
say more CPU than the first, the rest was no work. It belongs to whatever was queued between: in
each second it is split over CPU and the waits as that second's own samples are. Of what goes to the
waits, the part that the second counter knows was waited for a CPU, which nobody's storage is to
blame for, nor any preparation: it becomes `unknown`. What only the samples saw is the waits' own.
Seconds without waits keep all of theirs: a loader that burns CPU on too few cores stays a CPU
matter.

Both counters and samples are of all the time from the first to the last data wait that was seen: a
rank's counter holds its training step too, and so do its samples. Where a rank without workers told
its CPU time in the waits themselves (:mod:`.own_cpu`), that and what its other threads ran stand in
the counter's place, and samples of the waits alone against it.
"""

from __future__ import annotations

import polars as pl

from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.process_table import loader_processes
from slurm_io.analysis.samples import COUNTS, between_waits

_COLUMNS = ("mono_ns", "interval_ns", "pid", "rank", "role", "cpu_ns", "main_ns", "queue_ns")
_TEXTS = ("mount", "fstype", "path", "wchan")  # dear to copy, and not asked for here
_WAITS = ("storage", "net", "sleep", "unknown")


def relieve(
    evidence: pl.DataFrame,
    samples: pl.DataFrame,
    loaders: pl.DataFrame,
    own: pl.DataFrame,
    tables: Tables,
    every: int,
) -> pl.DataFrame:
    """`evidence` (:func:`.samples.explain`) with what did not run moved from cpu to the waits.

    `loaders` as there: processes with workers are judged by those, others by themselves. `own`:
    (proc, own) of :func:`.own_cpu.own_cpu`.
    """
    inside = between_waits(samples.drop(_TEXTS, strict=False), evidence)
    fed = pl.col("proc").is_in(loaders.filter("workers")["proc"].to_list())
    of_workers = inside.filter(fed & (pl.col("role") == "worker"))
    of_ranks = inside.filter(~fed & (pl.col("role") == "rank"))
    shares = pl.concat([
        _shares(of_workers, tables, every, "worker"),
        _by_own_cpu(_shares(of_ranks, tables, every, "rank"), evidence, of_ranks, own),
    ])  # fmt: skip
    joined = evidence.join(shares, on="proc", how="left", maintain_order="left")
    idle = pl.col("cpu") * (1 - pl.col("real").fill_null(1))
    waits = pl.sum_horizontal(_WAITS)
    joined = joined.with_columns(
        pl.when(waits > 0)
        .then(idle * waits / (waits + pl.col("cpu") - idle))
        .otherwise(0.0)
        .alias("moved"),
        waits.alias("waits"),
    )
    queued = pl.col("moved") * pl.col("queued").fill_null(0)
    seen = pl.when(pl.col("waits") > 0).then((pl.col("moved") - queued) / pl.col("waits"))
    return joined.with_columns(
        (pl.col("cpu") - pl.col("moved")).alias("cpu"),
        *(
            (pl.col(name) * (1 + seen.otherwise(0.0)) + (queued if name == "unknown" else 0))
            .alias(name)
            for name in _WAITS
        ),
    ).select(evidence.columns)  # fmt: skip


def really_running(samples: pl.DataFrame, tables: Tables, every: int, role: str) -> pl.DataFrame:
    """(proc, real): of what looked like CPU in `samples` of that role, the part that was; unknown
    or noisy counters change nothing (1)."""
    return _shares(samples, tables, every, role).select("proc", "real")


def really_ready(samples: pl.DataFrame, tables: Tables, every: int, role: str) -> pl.DataFrame:
    """As :func:`really_running`, what is known to have queued for a CPU counted in."""
    queued = (1 - pl.col("real")) * pl.col("queued").fill_null(0)
    return _shares(samples, tables, every, role).select("proc", pl.col("real") + queued)


def _by_own_cpu(
    shares: pl.DataFrame, evidence: pl.DataFrame, samples: pl.DataFrame, own: pl.DataFrame
) -> pl.DataFrame:
    """`real` of the waits alone, where the thread's own CPU time in them and the other threads' are
    known. The others may have run in the waits only, and helped."""
    seen = evidence.group_by("proc").agg(
        (pl.col("cpu").sum() / pl.col("passes").sum()).alias("seen")
    )
    looks = pl.sum_horizontal(f"n_{name}" for name in COUNTS)
    waiting = looks.filter(pl.col("phase") == "data_wait").sum() / looks.sum()
    waits = samples.group_by("proc").agg(waiting.alias("waiting"))
    joined = shares.join(own, on="proc", how="left").join(seen, on="proc", how="left")
    joined = joined.join(waits, on="proc", how="left")
    most = pl.col("own") + pl.col("helping") / pl.col("waiting")
    exact = pl.when(pl.col("seen") > 0).then((most / pl.col("seen")).clip(0, 1))
    return joined.with_columns(pl.coalesce(exact, "real").alias("real")).select(shares.columns)


def _shares(samples: pl.DataFrame, tables: Tables, every: int, role: str) -> pl.DataFrame:
    """(proc, real, queued, helping): of what looked like CPU the part that ran, and of the rest the
    part in which the main thread queued for a CPU; the time that other threads ran, over all time
    (both null: not counted)."""
    counted = _counted(samples, tables, every, role)
    shares = _runnable(samples).join(counted, on="proc", how="left")
    real = (pl.col("running") / pl.col("runnable")).clip(0, 1).fill_null(1).fill_nan(1)
    rest = pl.col("runnable") - pl.col("running")
    queued = pl.when(rest > 0).then((pl.col("waiting") / rest).clip(0, 1))
    others = (pl.col("running") - pl.col("main")).clip(0)
    return shares.select(
        "proc", real.alias("real"), queued.alias("queued"), others.alias("helping")
    )


def _runnable(samples: pl.DataFrame) -> pl.DataFrame:
    """(proc, runnable): share of the samples, in all phases, that looked like CPU."""
    total = pl.sum_horizontal(pl.col(f"n_{name}").sum() for name in COUNTS)
    return samples.group_by("proc").agg((pl.col("n_cpu").sum() / total).alias("runnable"))


def _counted(samples: pl.DataFrame, tables: Tables, every: int, role: str) -> pl.DataFrame:
    """(proc, running, main, waiting): CPU time, that of main threads, and time these queued for a
    CPU, over the processes' time while they were sampled."""
    spans = samples.group_by("proc", "node", "rank").agg(
        (pl.col("mono_ns") - pl.col("interval_ns")).min().alias("from"),
        pl.col("mono_ns").max().alias("to"),
    )
    counters = loader_processes(tables, every).select("node", *_COLUMNS)
    counters = counters.filter(pl.col("role") == role).drop_nulls("cpu_ns")
    middle = pl.col("mono_ns") - pl.col("interval_ns") // 2
    placed = counters.join(spans, on=["node", "rank"], how="left", maintain_order="left")
    # The second of the last wait holds the end of the program too, which may run for most of it.
    whole = (pl.col("mono_ns") - pl.col("interval_ns") >= pl.col("from")) & (
        pl.col("mono_ns") < pl.col("to")
    )
    inside = placed.filter(middle.is_between(pl.col("from"), pl.col("to"))).filter(
        whole | ~whole.any().over("proc")
    )
    # The means of main threads reach back some rows: those of the first, before all of this.
    told = pl.col("queue_ns").is_not_null()
    timed = inside.filter(told | pl.col("main_ns").is_not_null()).sort("mono_ns")
    means = timed.filter(told.cum_sum().over("proc", "pid") > 1)
    told_ns = pl.col("interval_ns").filter(told).sum()
    mains = means.group_by("proc").agg(
        (pl.col("main_ns").sum() / told_ns).fill_nan(None).alias("main"),
        (pl.col("queue_ns").sum() / told_ns).fill_nan(None).alias("waiting"),
    )
    running = (pl.col("cpu_ns").sum() / pl.col("interval_ns").sum()).alias("running")
    return inside.group_by("proc").agg(running).join(mains, on="proc", how="left")
