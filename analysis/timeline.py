"""Per process: where its time went. The ground everything else stands on.

``startup | compute | data_wait | ckpt_blocking | restore | eval | other``; `other` is the time
spent starting and ending passes over the loader. First batches of later passes are waits too, and
shown apart. The base of every share is :attr:`Process.training_s`: the window without evaluation,
without loads and without stretches nothing is known of.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from slurm_io.analysis import batches as batch_reader
from slurm_io.analysis import events as event_reader
from slurm_io.analysis.batches import NS
from slurm_io.analysis.facts import mapping, ranks_of, whole
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.windows import find_stretches, find_windows

_TICKS_HZ = 100  # USER_HZ of every kernel that Slurm runs on


@dataclass(frozen=True)
class Process:
    """One training process. Times in seconds, `opens` and `closes` in monotonic ns of its node."""

    proc: int
    node: str
    pid: int
    rank: int | None
    opens: int
    closes: int
    opens_ts_ns: int
    steps: int
    batches: int
    has_workers: bool
    cuda: bool
    stepped: bool
    startup_s: float
    data_wait_s: float
    first_batch_s: float
    ckpt_blocking_s: float
    restore_s: float
    eval_s: float
    other_s: float
    gap_s: float

    @property
    def window_s(self) -> float:
        """From the first training batch to the end of the last step."""
        return (self.closes - self.opens) / NS

    @property
    def training_s(self) -> float:
        """The base of shares: the window without evaluation, loads and gaps."""
        return max(0.0, self.window_s - self.eval_s - self.restore_s - self.gap_s)

    @property
    def compute_s(self) -> float:
        """What is left: the training step itself."""
        lost = self.data_wait_s + self.ckpt_blocking_s + self.other_s
        return max(0.0, self.training_s - lost)

    @property
    def label(self) -> str:
        """How people call it."""
        return f"rank {self.rank}" if self.rank is not None else f"process {self.pid}"


@dataclass(frozen=True)
class Timeline:
    """All processes. `rows`: their training batches inside the windows (the very first batch of a
    process is start-up and not in it); `events`, `stretches`: see :mod:`.events`, :mod:`.windows`.
    """

    processes: tuple[Process, ...]
    rows: pl.DataFrame
    events: pl.DataFrame
    stretches: pl.DataFrame
    all_batches: int

    @cached_property
    def by_proc(self) -> dict[int, Process]:
        """proc -> process."""
        return {process.proc: process for process in self.processes}


def read_timeline(tables: Tables) -> Timeline:
    """The timeline of a store; without hook rows one without processes."""
    batches = batch_reader.read_batches(tables)
    events = event_reader.read_events(tables, batches)
    batches = batch_reader.mark_training(batches, event_reader.final_steps(events))
    windows = find_windows(batches, events)
    stretches = find_stretches(batches, events, windows)
    opens = windows.select("proc", "opens")
    inside = batches.filter("training").join(opens, on="proc", how="left", maintain_order="left")
    inside = inside.filter(pl.col("end") > pl.col("opens"))
    processes = _processes(batches, inside, windows, stretches, _started(tables))
    # Of a long job each column is memory: these have done their work.
    rows = inside.drop("batch", "stepped", "training", "opens")
    return Timeline(processes, rows, events, stretches, batches.height)


def _processes(
    batches: pl.DataFrame,
    inside: pl.DataFrame,
    windows: pl.DataFrame,
    stretches: pl.DataFrame,
    started: dict[tuple[str, int], int],
) -> tuple[Process, ...]:
    waits = inside.group_by("proc").agg(
        pl.col("wait_s").sum().alias("data_wait_s"),
        pl.col("wait_s").filter(pl.col("first")).sum().alias("first_batch_s"),
    )
    trained = batches.filter("training")
    facts = trained.group_by("proc").agg(
        pl.first("node", "pid", "stepped"),
        pl.col("rank").drop_nulls().first(),
        pl.col("start").min().alias("first_start"),
        pl.col("ts_ns").min(),
        _steps_made().alias("steps"),
        pl.len().alias("batches"),
        pl.col("workers").any().alias("has_workers"),
        pl.col("cuda").any(),
    )
    spent = stretches.group_by("proc").agg(
        ((pl.col("end") - pl.col("start")).filter(pl.col("kind") == kind).sum() / NS).alias(kind)
        for kind in ("eval", "ckpt", "load", "epoch", "gap")
    )
    merged = facts.join(windows, on="proc").join(waits, on="proc", how="left")
    merged = merged.join(spent, on="proc", how="left").sort("proc")
    return tuple(_process(row, started) for row in merged.iter_rows(named=True))


def _steps_made() -> pl.Expr:
    """Steps of one process, whose batches come in order.

    A loop that fetches one batch ahead (accelerate) leaves step numbers out where a pass ends; two
    optimizers count two for each batch. No batch makes more than one step.
    """
    step = pl.col("step")
    ahead = step.diff()
    each = ahead.filter(ahead > 0).median().fill_null(1.0)
    made = ((step.max() - step.min()) / each).floor().cast(pl.Int64) + 1
    return pl.min_horizontal(made, pl.len().cast(pl.Int64))


def _process(row: dict[str, Any], started: dict[tuple[str, int], int]) -> Process:
    began = min(started.get((row["node"], row["pid"]), row["first_start"]), row["first_start"])
    return Process(
        proc=row["proc"],
        node=row["node"],
        pid=row["pid"],
        rank=row["rank"],
        opens=row["opens"],
        closes=row["closes"],
        opens_ts_ns=(row["ts_ns"] or 0) + row["opens"] - row["first_start"],
        steps=row["steps"],
        batches=row["batches"],
        has_workers=row["has_workers"],
        cuda=row["cuda"],
        stepped=row["stepped"],
        startup_s=(row["opens"] - began) / NS,
        data_wait_s=row["data_wait_s"] or 0.0,
        first_batch_s=row["first_batch_s"] or 0.0,
        ckpt_blocking_s=row["ckpt"] or 0.0,
        restore_s=row["load"] or 0.0,
        eval_s=row["eval"] or 0.0,
        other_s=row["epoch"] or 0.0,
        gap_s=row["gap"] or 0.0,
    )


def _started(tables: Tables) -> dict[tuple[str, int], int]:
    """(node, pid) -> monotonic ns at which the process began, imports and all, from meta.json.

    The kernel counts `starttime` from boot (proc(5)), suspended time included, which is the
    monotonic clock on a machine that never sleeps. Where it cannot be, what the hook saw first.
    """
    began: dict[tuple[str, int], int] = {}
    for name, view in tables.store.nodes.items():
        offset = whole(mapping(view.meta.get("clock")).get("realtime_minus_monotonic_ns"))
        for rank in ranks_of(view) if offset is not None else ():
            pid, first = whole(rank.get("pid")), whole(rank.get("first_ts_ns"))
            if pid is not None and first is not None:
                seen = first - (offset or 0)
                ticks = whole(rank.get("starttime"))
                start = ticks * NS // _TICKS_HZ if ticks is not None and ticks > 0 else seen
                began[name, pid] = min(start, seen)
    return began
