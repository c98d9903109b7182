"""The pieces of a job in which reads are added up: passes over the data, else equal slices of time.

A pass of the first kind is told by the hook: how often the training loader was started. Pieces
leave out evaluations and loads of checkpoints, and the first one begins when the first batch has
come, so that imports and the workers' start are no reads of the dataset. A job that made one pass
only, or whose batches nobody timed, is cut into equal slices instead; without a hook these cover
everything since the sampler first saw the processes, start-up included.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import polars as pl

from slurm_io.analysis.timeline import Process, Timeline

MOST_SLICES = 16
_TIME_SLICES = 4
_SHORTEST_SLICE_NS = 10_000_000_000
_LEFT_OUT = ("eval", "load")
_PIECES = {"owner": pl.Int32(), "slice": pl.Int32(), "start": pl.Int64(), "end": pl.Int64()}


@dataclass(frozen=True)
class Slices:
    """`pieces`: owner slice start end, monotonic ns; those of one owner are disjoint and in order.

    An owner is a process of the timeline (`proc`), without a hook a node (its place in the store).
    `epochs`: of each slice the first and last pass in it, None where slices are of time.
    """

    kind: Literal["epoch", "time"]
    pieces: pl.DataFrame
    epochs: tuple[tuple[int, int] | None, ...]

    @property
    def count(self) -> int:
        """Number of slices."""
        return len(self.epochs)


def of_timeline(timeline: Timeline) -> Slices:
    """Slices of a job whose batches were timed: by epoch where there are two at least."""
    loaders = main_loaders(timeline)
    named = timeline.rows.select("proc", "loader", "epoch", "start")
    mine = named.join(loaders, on=["proc", "loader"], how="semi")
    starts = mine.group_by("proc", "epoch").agg(pl.col("start").min()).sort("proc", "epoch")
    epochs = sorted(set(starts["epoch"].to_list()))
    if len(epochs) < 2:
        spans = {process.proc: (process.opens, process.closes) for process in timeline.processes}
        return _by_time(spans, timeline)
    groups = _groups(epochs)
    number = {epoch: place for place, group in enumerate(groups) for epoch in group}
    found = []
    for process in timeline.processes:
        begins = starts.filter(pl.col("proc") == process.proc).select("epoch", "start").rows()
        edges = [*(start for _, start in begins), process.closes]
        spans_of = zip(begins, pairwise(edges), strict=True)
        # A loader that is started anew while an older pass goes on has no epochs in time.
        merged = [(number[epoch], *span) for (epoch, _), span in spans_of if span[1] > span[0]]
        found += _without_stretches(process, merged, timeline)
    labels = tuple((group[0], group[-1]) for group in groups)
    return Slices("epoch", _frame(found), labels)


def of_nodes(spans: dict[int, tuple[int, int]]) -> Slices:
    """Equal slices of time where nothing was timed: owner -> (start, end) of what was seen."""
    return _by_time(spans, None)


def main_loaders(timeline: Timeline) -> pl.DataFrame:
    """(proc, loader): the training loader with most batches, whose passes are the epochs."""
    return (
        timeline.rows.group_by("proc", "loader")
        .agg(pl.len().alias("batches"))
        .sort("proc", "batches", "loader", descending=[False, True, False])
        .group_by("proc", maintain_order=True)
        .agg(pl.first("loader"))
    )


def _groups(epochs: list[int]) -> list[list[int]]:
    """The first epoch by itself; very many others several together."""
    others = epochs[1:]
    places = min(len(others), MOST_SLICES - 1)
    found: list[list[int]] = [[] for _ in range(places)]
    for place, epoch in enumerate(others):
        found[place * places // len(others)].append(epoch)
    return [[epochs[0]], *found]


def _by_time(spans: dict[int, tuple[int, int]], timeline: Timeline | None) -> Slices:
    longest_ns = max((end - start for start, end in spans.values()), default=0)
    count = max(1, min(_TIME_SLICES, longest_ns // _SHORTEST_SLICE_NS))
    processes = {} if timeline is None else timeline.by_proc
    found: list[tuple[int, int, int, int]] = []
    for owner, (start, end) in sorted(spans.items()):
        edges = [start + (end - start) * place // count for place in range(count + 1)]
        pieces = [(place, *edge) for place, edge in enumerate(pairwise(edges))]
        if timeline is None:
            found += [(owner, *piece) for piece in pieces]
        else:
            found += _without_stretches(processes[owner], pieces, timeline)
    return Slices("time", _frame(found), (None,) * count)


def _without_stretches(
    process: Process, spans: Iterable[tuple[int, int, int]], timeline: Timeline
) -> list[tuple[int, int, int, int]]:
    """(owner, slice, start, end): the spans less what is no training."""
    mine = (pl.col("proc") == process.proc) & pl.col("kind").is_in(_LEFT_OUT)
    holes = timeline.stretches.filter(mine).sort("start").select("start", "end").rows()
    found, at = [], 0
    for number, span_start, end in spans:
        start = span_start
        while at < len(holes) and holes[at][1] <= start:
            at += 1
        place = at
        while place < len(holes) and holes[place][0] < end:
            if holes[place][0] > start:
                found.append((process.proc, number, start, holes[place][0]))
            start = max(start, holes[place][1])
            place += 1
        if start < end:
            found.append((process.proc, number, start, end))
    return found


def _frame(pieces: list[tuple[int, int, int, int]]) -> pl.DataFrame:
    return pl.DataFrame(pieces, schema=_PIECES, orient="row").sort("owner", "start")
