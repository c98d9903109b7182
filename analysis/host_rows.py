"""Rows of the sampler's tables that lie in training, as many as an answer needs.

A table of one row a second and node has millions of rows after a month. Shares and means do not
need them all: a longer job is looked at in evenly spread seconds (:attr:`HostRows.every`), so the
memory this takes does not grow with the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import polars as pl

from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.timeline import Timeline

NS = 1_000_000_000
_ENOUGH_ROWS = 200_000
_ROWS_A_SECOND = {
    "process": 16,
    "gpu": 8,
    "block": 4,
    "fsclient": 4,
    "stacks": 16,
}  # about, on a node
_WARMUP_SHARE = 0.05  # of the training window, at most _WARMUP_NS: caches fill, clocks settle
_WARMUP_NS = 300 * NS


@dataclass(frozen=True)
class HostRows:
    """`rows`: node (String), mono_ns, interval_ns, `seconds`, `at` (0..1 of the node's training)
    and the columns asked for. A sum over them stands for `every` times as much.
    """

    rows: pl.DataFrame
    every: int

    @property
    def is_empty(self) -> bool:
        """Nothing was recorded while the job trained."""
        return self.rows.is_empty()


def rows_in_training(
    tables: Tables,
    timeline: Timeline,
    table: str,
    columns: Sequence[str],
    of_moments: bool = False,
) -> HostRows:
    """Rows of `table` whose interval's middle lies between warm-up and the last step of their
    node. `table` must have ``interval_ns``.

    `of_moments`: what is asked for is no counter and stands for the end of its interval (memory
    held), which must lie there: the next moment it may be given back.
    """
    return rows_between(tables, training_spans(timeline), table, columns, of_moments)


def rows_between(
    tables: Tables,
    spans: pl.DataFrame,
    table: str,
    columns: Sequence[str],
    of_moments: bool = False,
) -> HostRows:
    """As :func:`rows_in_training`, between `opens` and `closes` of each node in `spans`."""
    every = thinning(spans, _ROWS_A_SECOND.get(table, 1))
    raw = tables.frame(table, ("mono_ns", "interval_ns", *columns), every)
    raw = raw.drop_nulls(["mono_ns", "interval_ns"]).filter(pl.col("interval_ns") > 0)
    middle = pl.col("mono_ns") - (0 if of_moments else pl.col("interval_ns") // 2)
    placed = raw.with_columns(pl.col("node").cast(pl.String)).join(spans, on="node", how="inner")
    inside = placed.filter((middle >= pl.col("opens")) & (middle <= pl.col("closes")))
    at = (middle - pl.col("opens")) / (pl.col("closes") - pl.col("opens")).clip(1)
    return HostRows(
        inside.with_columns((pl.col("interval_ns") / NS).alias("seconds"), at.alias("at")).drop(
            "opens", "closes"
        ),
        every,
    )


def training_spans(timeline: Timeline, warm: bool = True) -> pl.DataFrame:
    """(node, opens, closes): monotonic ns between which the node trained.

    `warm`: warm-up is left out.
    """
    spans: dict[str, tuple[int, int]] = {}
    for process in timeline.processes:
        opens, closes = spans.get(process.node, (process.opens, process.closes))
        spans[process.node] = (min(opens, process.opens), max(closes, process.closes))
    return pl.DataFrame(
        [
            (node, warm_up_over(opens, closes) if warm else opens, closes)
            for node, (opens, closes) in sorted(spans.items())
        ],
        schema={"node": pl.String, "opens": pl.Int64, "closes": pl.Int64},
        orient="row",
    )


def thinning(spans: pl.DataFrame, rows_a_second: int = 1) -> int:
    """Each how many-th second of the clock is enough."""
    total = sum(max(0, closes - opens) / NS for _, opens, closes in spans.iter_rows())
    return int(min(3600, max(1, round(total * rows_a_second / _ENOUGH_ROWS))))


def sparse(spans: pl.DataFrame, period_s: int, enough_rows: int = 500_000) -> int:
    """As :func:`thinning` for a table with a row every `period_s` seconds.

    Shares no factor with the period: else the seconds kept could be those without rows.
    """
    total = sum(max(0, closes - opens) / NS for _, opens, closes in spans.iter_rows())
    every = int(min(3600, max(1, round(total / period_s / enough_rows))))
    while gcd(every, period_s) > 1:
        every += 1
    return every


def warm_up_over(opens: int, closes: int) -> int:
    """When caches are filled and clocks have settled; monotonic ns."""
    return opens + int(min(_WARMUP_NS, _WARMUP_SHARE * max(0, closes - opens)))
