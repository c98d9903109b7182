"""F19: Python's garbage collector stops training.

What it flags
-------------
Collections of the older generations that the training thread stood still for took 3 % of training
or more.

Why it matters
--------------
A collection holds every thread of the process, and in a synchronous job all other ranks wait for
it. It makes steps as uneven as slow storage does, and no file system mends it.

Evidence
--------
The hook times every collection of a millisecond and more. In a synchronous job a step loses the
longest pause among its ranks, times all of them. Whether the slow steps are the ones with a
collection in them is the second, independent signal (step times come from another clock).

What to do
----------
Collect when it suits: switch the automatic collector off and collect at the same step on all ranks.
What lives as long as the job need not be looked at again (``gc.freeze``).

Known false alarms
------------------
A pause while the GPU works off queued kernels costs less than it lasts. Collections inside worker
processes are not timed; they delay a batch, not the step, and show as preparation. Pauses under a
millisecond are not recorded.

Thresholds
----------
``thresholds.collections_share`` (3 % of training time); at least 20 steps and 5 s of training.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    iso,
    shortness,
    sure,
)

_SERIOUS_SHARE = 0.10


@dataclass(frozen=True)
class _Pauses:
    """Collections inside the training windows of all processes."""

    count: int
    total_s: float
    longest_s: float
    first_ts_ns: int | None
    last_ts_ns: int | None
    procs: tuple[int, ...]


@RULES.register("f19_gc_pauses")
class GcPauses:
    """Garbage collections stop training."""

    code = "F19"
    title = "garbage collections stop training"
    needs: Needs = "steps"

    def judge(self, picture: Picture) -> Answer:
        """Fires when pauses took more than their share."""
        share, limit = picture.collections_share, picture.thresholds.shares.elsewhere
        pauses = _pauses(picture)
        if pauses is None:
            return Answer("quiet", "no collection of a millisecond or more during training")
        if share < limit:
            return Answer("quiet", f"{pauses.count} collections took {share:.2%} of training")
        return Answer("fired", findings=(_finding(picture, pauses, share, limit),))


def _pauses(picture: Picture) -> _Pauses | None:
    windows = pl.DataFrame(
        [(one.proc, one.opens, one.closes) for one in picture.timeline.processes],
        schema={"proc": pl.Int32, "opens": pl.Int64, "closes": pl.Int64},
        orient="row",
    )
    events = picture.timeline.events.filter((pl.col("kind") == "gc") & pl.col("blocking"))
    inside = events.join(windows, on="proc").filter(
        (pl.col("start") >= pl.col("opens")) & (pl.col("start") < pl.col("closes"))
    )
    if inside.is_empty():
        return None
    length = (inside["end"] - inside["start"]) / 1e9
    times = inside["ts_ns"].drop_nulls().sort()
    busiest = inside.group_by("proc").agg((pl.col("end") - pl.col("start")).sum().alias("length"))
    busiest = busiest.sort("length", "proc", descending=[True, False])
    return _Pauses(
        count=inside.height,
        total_s=float(length.sum()),
        longest_s=max(length.to_list()),
        first_ts_ns=times[0] if len(times) else None,
        last_ts_ns=times[-1] if len(times) else None,
        procs=tuple(busiest["proc"].head(8).to_list()),
    )


def _finding(picture: Picture, pauses: _Pauses, share: float, limit: float) -> Finding:
    steps = picture.variance
    aligned = steps is not None and steps.slow_steps >= 3 and (
        steps.collected_share >= picture.thresholds.variance.periodic_share
    )  # fmt: skip
    by_proc = picture.timeline.by_proc
    held = [by_proc[proc] for proc in pauses.procs]
    evidence = [
        Evidence(
            f"collections that training stood still for took {share:.1%} of its time",
            "collections_share", share, limit,
        ),
        Evidence(
            f"{pauses.count} collections, {pauses.total_s / pauses.count * 1000:.0f} ms each, the "
            f"longest {pauses.longest_s * 1000:.0f} ms",
            "collection_s", pauses.longest_s, None, iso(pauses.first_ts_ns), iso(pauses.last_ts_ns),
        ),
    ]  # fmt: skip
    if aligned and steps is not None:
        text = f"{steps.collected_share:.0%} of {steps.slow_steps} slow steps are collections"
        evidence.append(Evidence(text, "collected_share", steps.collected_share))
    return Finding(
        rule="F19",
        severity="bad" if share >= _SERIOUS_SHARE else "warn",
        confidence=sure(1 + aligned),
        title="garbage collections stop training",
        lost_gpu_s=share * picture.losses.base_gpu_s,
        where=Place(
            nodes=tuple(sorted({one.node for one in held})),
            ranks=tuple(sorted(one.rank for one in held if one.rank is not None)),
        ),
        evidence=(*evidence, *shortness(picture)),
        remedy="collect at the same step on every rank instead of whenever Python likes, and leave "
        "what lives as long as the job out of it",
        commands=(
            "gc.collect(); gc.freeze(); gc.disable()  # once, after model and loaders are built",
            "if step % 500 == 0: gc.collect(1)  # in the loop, on all ranks",
        ),
        elsewhere=True,
    )
