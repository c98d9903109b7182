"""Checkpoints of a job, put together from the calls of its ranks.

All that the processes of one unit (a synchronous group, or one process) save at the same optimizer
step is one checkpoint. Its *blocking* part held training up; what a thread or process wrote beside
training is its *background* part, put to the last blocking call before it. A save behind the last
step of training is the job's product and not among them (:mod:`..windows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from slurm_io.analysis.batches import NS
from slurm_io.analysis.events import CHECKPOINT_KINDS
from slurm_io.analysis.lockstep import Unit
from slurm_io.analysis.timeline import Timeline

BACKGROUND = "ckpt_background"


@dataclass(frozen=True)
class Save:
    """One checkpoint. `blocking_s`: of the rank that was held longest. `background_s`: None where
    nothing was written beside training. `bytes`: None where any of its calls told none (a folder of
    shards). `late`: it was still being written when the next one began."""

    unit: int
    step: int
    start_ts_ns: int | None
    start: int  # monotonic ns of `first`'s node
    first: int  # proc that began
    blocking_s: float
    background_s: float | None
    procs: tuple[int, ...]
    bytes: int | None
    bytes_of: dict[int, int]
    path: str | None
    is_async: bool
    failed: bool
    late: bool

    @property
    def writing_s(self) -> float:
        """What the writing took: the background part where there is one."""
        return self.background_s if self.background_s is not None else self.blocking_s


def find_saves(timeline: Timeline, units: Sequence[Unit]) -> tuple[Save, ...]:
    """In order of unit and time."""
    calls = _calls(timeline, units)
    if calls.is_empty():
        return ()
    found = [_save(part) for _, part in calls.group_by("unit", "of_step", maintain_order=True)]
    found.sort(key=lambda one: (one.unit, one.start))
    return tuple(_with_late(one, calls, found[place + 1 : place + 2])
                 for place, one in enumerate(found))  # fmt: skip


def save_calls(timeline: Timeline) -> pl.DataFrame:
    """Events of saves that began in training, blocking or beside it."""
    windows = pl.DataFrame(
        [(one.proc, one.opens, one.closes) for one in timeline.processes],
        schema={"proc": pl.Int32, "opens": pl.Int64, "closes": pl.Int64},
        orient="row",
    )
    is_save = pl.col("kind").is_in([*CHECKPOINT_KINDS, BACKGROUND])
    events = timeline.events.filter(is_save).join(windows, on="proc")
    inside = (pl.col("end") > pl.col("opens")) & (pl.col("start") < pl.col("closes"))
    aside = ~pl.col("blocking") | (pl.col("kind") == BACKGROUND)
    return events.filter(inside).with_columns(aside.alias("aside"))


def _calls(timeline: Timeline, units: Sequence[Unit]) -> pl.DataFrame:
    """With `unit` and `of_step`, the step the checkpoint belongs to."""
    members = pl.DataFrame(
        [(proc, unit.unit) for unit in units for proc in unit.procs],
        schema={"proc": pl.Int32, "unit": pl.Int32},
        orient="row",
    )
    calls = save_calls(timeline).join(members, on="proc").with_columns(pl.col("step").fill_null(0))
    began = calls.filter(~pl.col("aside")).select("proc", "start", of_step="step")
    placed = calls.sort("start").join_asof(
        began.sort("start"), on="start", by="proc", strategy="backward", check_sortedness=False
    )
    return placed.with_columns(
        pl.when("aside").then(pl.coalesce("of_step", "step")).otherwise("step").alias("of_step")
    ).sort("unit", "of_step", "start")


def _save(calls: pl.DataFrame) -> Save:
    held = calls.filter(~pl.col("aside"))
    aside = calls.filter("aside")
    first = (held if not held.is_empty() else calls).sort("start", "proc").row(0, named=True)
    length_s = (pl.col("end") - pl.col("start")).sum() / NS
    each = held.group_by("proc").agg(length_s.alias("s"))
    behind = aside.group_by("proc").agg((pl.col("end").max() - pl.col("start").min()) / NS)
    # Of an asynchronous save the blocking call tells no size; what writes does.
    writers = aside if not aside.is_empty() else held
    sizes = writers.drop_nulls("bytes").group_by("proc").agg(pl.col("bytes").sum()).sort("proc")
    known = writers["bytes"].null_count() == 0
    longest = calls.sort(pl.col("end") - pl.col("start"), "path", descending=[True, False])
    paths = longest["path"].drop_nulls()
    return Save(
        unit=first["unit"],
        step=first["of_step"],
        start_ts_ns=first["ts_ns"],
        start=first["start"],
        first=first["proc"],
        blocking_s=max(each["s"].to_list(), default=0.0),
        background_s=max(behind["end"].to_list()) if not behind.is_empty() else None,
        procs=tuple(calls["proc"].unique().sort().to_list()),
        bytes=int(sizes["bytes"].sum()) if known else None,
        bytes_of=dict(sizes.iter_rows()),
        path=paths[0] if len(paths) else None,
        is_async=bool((held["kind"] == "ckpt_async").any()) or not aside.is_empty(),
        failed=bool(calls["failed"].any()),
        late=False,
    )


def _with_late(one: Save, calls: pl.DataFrame, following: Sequence[Save]) -> Save:
    """Whether its background part ran into the next save of the same unit."""
    if one.background_s is None or not following or following[0].unit != one.unit:
        return one
    mine = calls.filter((pl.col("unit") == one.unit) & pl.col("aside"))
    mine = mine.filter(pl.col("of_step") == one.step)
    theirs = calls.filter(
        (pl.col("unit") == one.unit) & ~pl.col("aside") & (pl.col("of_step") == following[0].step)
    )
    ends = mine.group_by("proc").agg(pl.col("end").max())
    starts = theirs.group_by("proc").agg(pl.col("start").min())
    both = ends.join(starts, on="proc")
    late = bool((both["end"] > both["start"]).any())
    return replace(one, late=late)
