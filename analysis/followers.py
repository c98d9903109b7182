"""Ranks that wait for what another one reads for them: dispatching loaders.

With accelerate's dispatcher rank 0 reads and broadcasts, and the others wait in the broadcast. As a
rule their waits are not timed at all, for they never ask a loader. Where the loop itself is wrapped
(``watch``), they are, as data waits that end when rank 0's do; from outside they look like a socket
or a lock, and a socket read would be taken for an object store. So of a synchronous group in which
one rank alone reads (workers, reads or preparation among its samples) and every other waits as long
as it does, with no work of its own in the samples, the wait is charged once: to the one that reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from slurm_io.analysis.causes import Causes
from slurm_io.analysis.lockstep import Unit
from slurm_io.analysis.samples import CAUSES

_LEAST_PASSES = 10
_OWN_WORK = 0.1  # of the passes in storage or on a CPU, from which on a rank reads itself
_ALIKE = 0.25  # of the longer of two waits: what a broadcast adds
_SLACK_S = 0.002
_WAITS_FROM_S = 0.005
_MOST_STEPS = 0.8  # of the steps with a wait in which the two must be alike
_LEAST_STEPS = 20
_LOST = (*(f"l_{cause}" for cause in CAUSES), "lost_low_s", "lost_s", "lost_high_s",
         "storage_low_s", "storage_high_s")  # fmt: skip


def find_followers(causes: Causes, units: Sequence[Unit]) -> frozenset[int]:
    """Processes whose data waits are another's."""
    wide = [unit for unit in units if unit.is_synchronous]
    if not wide:
        return frozenset()
    idle = _without_work(causes)
    found: set[int] = set()
    for unit in wide:
        readers = [proc for proc in unit.procs if proc not in idle]
        others = [proc for proc in unit.procs if proc in idle]
        if len(readers) == 1 and others and all(
            _follows(causes.rows, proc, readers[0], unit) for proc in others
        ):  # fmt: skip
            found.update(others)
    return frozenset(found)


def without_waits_of(causes: Causes, followers: frozenset[int]) -> Causes:
    """The same without the followers' data waits."""
    if not followers:
        return causes
    theirs = pl.col("proc").is_in(list(followers))
    lost = [name for name in _LOST if name in causes.rows.columns]
    rows = causes.rows.with_columns(
        pl.when(theirs).then(0.0).otherwise(pl.col(name)).alias(name) for name in lost
    )
    waiting = pl.col("phase") == "data_wait"
    return replace(
        causes,
        rows=rows,
        samples=causes.samples.filter(~(theirs & waiting)),
        evidence=causes.evidence.filter(~theirs),
        seconds=causes.seconds.filter(~theirs),
    )


def _without_work(causes: Causes) -> frozenset[int]:
    """Without workers, and hardly ever seen reading a file or computing while they waited."""
    workers = causes.rows.group_by("proc").agg(pl.col("workers").any())
    sums = causes.evidence.group_by("proc").agg(
        pl.col("passes").sum(), (pl.col("storage") + pl.col("cpu")).sum().alias("own")
    )
    alone = workers.filter(~pl.col("workers")).join(sums, on="proc")
    enough = pl.col("passes") >= _LEAST_PASSES
    idle = alone.filter(enough & (pl.col("own") < _OWN_WORK * pl.col("passes")))
    return frozenset(idle["proc"].to_list())


def _follows(rows: pl.DataFrame, proc: int, reader: int, unit: Unit) -> bool:
    """Whether it waits as long as the reader does, step by step."""
    waits = [
        rows.filter(pl.col("proc") == one)
        .group_by(pl.col("step") + unit.shifts.get(one, 0))
        .agg(pl.col("wait_s").sum())
        for one in (proc, reader)
    ]
    both = waits[0].join(waits[1], on="step", suffix="_reader")
    longer = pl.max_horizontal("wait_s", "wait_s_reader")
    seen = both.filter(longer >= _WAITS_FROM_S)
    apart = (pl.col("wait_s") - pl.col("wait_s_reader")).abs()
    alike = seen.select((apart <= _ALIKE * longer + _SLACK_S).mean()).item()
    return seen.height >= _LEAST_STEPS and float(alike) >= _MOST_STEPS
