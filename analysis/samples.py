"""Wait samples turned into evidence: what the loader of each process was doing, second by second.

For a loader with worker processes the workers' samples count. A worker in class `pipe` waits for
something to do and is no evidence; a pass in which no worker at all was busy is the pipeline's
own. Without workers the rank's own samples count; where it sat in a pipe or a lock, its
descendants say why, if they were doing anything.

Columns of the result: proc sec passes, and the passes explained by each of CAUSES (they sum to
`passes`).
"""

from __future__ import annotations

import polars as pl

from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.thresholds import Sampling

CAUSES = ("storage", "net", "cpu", "pipeline", "sleep", "unknown")
COUNTS = ("storage", "net", "pipe", "lock", "sleep", "cpu", "gpu", "other", "unknown")
_COLUMNS = (
    "mono_ns", "interval_ns", "rank", "role", "phase", "loader", "mount", "fstype", "path", "wchan",
    "passes", "processes", *(f"n_{name}" for name in COUNTS), "n_fault",
)  # fmt: skip
_DIRECT = ("storage", "net", "cpu", "sleep")
_VAGUE = ("lock", "gpu", "other", "unknown")


def thinning(process_seconds: float, sampling: Sampling) -> int:
    """Each how many-th second is looked at: all of a short job, evenly spread ones of a long one.

    A day of eight ranks is millions of rows; a tenth of them says how its waits split to a
    fraction of a per cent. Seconds left out borrow, as any second without samples (:mod:`.shares`).
    """
    return min(sampling.most_thinning, max(1, round(process_seconds / sampling.enough_seconds)))


def read_samples(tables: Tables, every: int) -> pl.DataFrame:
    """The waits table, rows of ranks and workers only; a null rank becomes -1."""
    counts = [f"n_{name}" for name in COUNTS]
    return (
        tables.frame("waits", _COLUMNS, every)
        .filter(pl.col("role").is_in(["rank", "worker"]))
        .drop_nulls(["mono_ns", "phase"])
        .with_columns(
            pl.col("rank").fill_null(-1),
            pl.col("interval_ns").fill_null(1_000_000_000).clip(1, 3_600_000_000_000),
            pl.col("passes", *counts, "n_fault").fill_null(0).clip(0),
        )
    )


def assign(samples: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Give sample rows their process: same node, same rank, while the process lived.

    A process that named no rank, alone on its node, takes the samples of the node's only rank.
    """
    spans = rows.group_by("proc").agg(
        pl.first("node"),
        pl.col("rank").drop_nulls().first().fill_null(-1),
        pl.col("start").min().alias("born"),
        (pl.col("end").max() + 1_000_000_000).alias("died"),
    )
    seen = samples.select("node", "rank").unique()
    spans = _rank_as_sampled(spans, seen)
    # Nearly every row has a process: a left join leaves the rows where they are, copying nothing.
    placed = samples.join(spans, on=["node", "rank"], how="left", maintain_order="left").filter(
        (pl.col("mono_ns") >= pl.col("born"))
        & (pl.col("mono_ns") - pl.col("interval_ns") <= pl.col("died"))
    )
    return placed.drop("born", "died")


def _rank_as_sampled(spans: pl.DataFrame, seen: pl.DataFrame) -> pl.DataFrame:
    only = seen.group_by("node").agg(pl.col("rank").first().alias("only"), pl.len().alias("ranks"))
    matched = spans.join(
        seen.with_columns(pl.lit(True).alias("hit")), on=["node", "rank"], how="left"
    ).join(only, on="node", how="left")
    alone = (pl.len().over("node") == 1) & (pl.col("ranks") == 1) & pl.col("hit").is_null()
    rank = pl.when(alone).then("only").otherwise("rank")
    return matched.with_columns(rank.alias("rank")).drop("hit", "only", "ranks")


def between_waits(samples: pl.DataFrame, evidence: pl.DataFrame) -> pl.DataFrame:
    """Those from the first to the last second of `evidence` (:func:`explain`): a process that
    starts or ends reads and works as well, and that is no loading of batches."""
    spans = evidence.group_by("proc").agg(
        pl.col("sec").min().alias("from_sec"), pl.col("sec").max().alias("to_sec")
    )
    inside = pl.col("sec").is_between(pl.col("from_sec"), pl.col("to_sec"))
    placed = samples.join(spans, on="proc", how="left", maintain_order="left")
    return placed.filter(inside).drop("from_sec", "to_sec")


def explain(samples: pl.DataFrame, loaders: pl.DataFrame) -> pl.DataFrame:
    """Evidence of data waits by proc and second. `loaders`: (proc, loader, workers) that train."""
    waiting = samples.filter(pl.col("phase") == "data_wait")
    ticks = (
        waiting.group_by("proc", "sec", "mono_ns", "loader", "role")
        .agg(pl.col("passes").max(), pl.col(*(f"n_{name}" for name in COUNTS)).sum())
        .join(loaders, on=["proc", "loader"], how="inner")
        .group_by("proc", "sec", "loader", "role", "workers")
        .agg(pl.col("passes", *(f"n_{name}" for name in COUNTS)).sum())
    )
    ticks = ticks.with_columns(
        pl.sum_horizontal(f"n_{name}" for name in (*_DIRECT, *_VAGUE)).alias("busy"),
        pl.sum_horizontal(f"n_{name}" for name in _VAGUE).alias("vague"),
    )
    causes = pl.concat([_by_workers(ticks), _by_rank(ticks)])
    return causes.group_by("proc", "sec").agg(pl.col("passes", *CAUSES).sum())


def _by_workers(ticks: pl.DataFrame) -> pl.DataFrame:
    """Passes by cause for loaders with workers: busy workers explain, idle ones do not."""
    mine = ticks.filter(pl.col("workers") & (pl.col("role") == "worker") & (pl.col("passes") > 0))
    nobody = (pl.col("busy") + pl.col("n_pipe")) == 0
    covered = pl.min_horizontal(pl.col("busy"), pl.col("passes"))
    scale = pl.when(pl.col("busy") > 0).then(covered / pl.col("busy")).otherwise(0.0)
    return mine.select(
        "proc",
        "sec",
        pl.col("passes").cast(pl.Float64),
        *((pl.col(f"n_{name}") * scale).alias(name) for name in ("storage", "net", "cpu")),
        pl.when(nobody).then(0.0).otherwise(pl.col("passes") - covered).alias("pipeline"),
        (pl.col("n_sleep") * scale).alias("sleep"),
        pl.when(nobody).then(pl.col("passes")).otherwise(pl.col("vague") * scale).alias("unknown"),
    )


def _by_rank(ticks: pl.DataFrame) -> pl.DataFrame:
    """Passes by cause for loaders without workers: the rank itself, its helpers where it waited."""
    keys = ["proc", "sec", "loader"]
    own = ticks.filter(~pl.col("workers") & (pl.col("role") == "rank") & (pl.col("passes") > 0))
    helpers = ticks.filter(~pl.col("workers") & (pl.col("role") == "worker")).select(
        *keys,
        pl.col("busy").alias("h_busy"),
        *(pl.col(f"n_{name}").alias(f"h_{name}") for name in _DIRECT),
        pl.col("vague").alias("h_vague"),
    )
    joined = own.join(helpers, on=keys, how="left").with_columns(pl.col("^h_.*$").fill_null(0))
    total = pl.max_horizontal(pl.col("busy") + pl.col("n_pipe"), 1)
    unit = pl.col("passes") / total
    handed_on = pl.col("n_pipe") + pl.col("n_lock")
    helped = pl.when(pl.col("h_busy") > 0).then(handed_on / pl.col("h_busy")).otherwise(0.0)
    left = pl.when(pl.col("h_busy") > 0).then(pl.col("vague") - pl.col("n_lock")).otherwise(
        pl.col("vague") + pl.col("n_pipe")
    )  # fmt: skip
    nothing = pl.when(pl.col("busy") + pl.col("n_pipe") == 0).then(pl.col("passes")).otherwise(0)
    return joined.select(
        "proc",
        "sec",
        pl.col("passes").cast(pl.Float64),
        *(
            ((pl.col(f"n_{name}") + pl.col(f"h_{name}") * helped) * unit).alias(name)
            for name in ("storage", "net", "cpu")
        ),
        pl.lit(0.0).alias("pipeline"),
        ((pl.col("n_sleep") + pl.col("h_sleep") * helped) * unit).alias("sleep"),
        ((left + pl.col("h_vague") * helped) * unit + nothing).alias("unknown"),
    )
