"""Throughput of each node over time against the run's own: the bins in which it drops.

A step that takes twice its usual time is work done at half the rate. The rate of a bin is the mean
of usual over real duration of the steps in it, weighted by time, over the node's processes (of a
synchronous group one, for they keep step). Usual is the median of the tenth of the run the step
lies in, so that a run that becomes slower and slower does not count as one long drop.

Steps with a checkpoint, an evaluation, a load or a pass start in them, and steps with batches
missing from the record, say nothing; nor does warm-up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl

from slurm_io.analysis.batches import NS
from slurm_io.analysis.host_rows import training_spans
from slurm_io.analysis.in_parts import in_parts
from slurm_io.analysis.lockstep import Unit
from slurm_io.analysis.thresholds import Alignment as Limits
from slurm_io.analysis.timeline import Timeline

_PARTS = 10
_STEPS_IN_A_PART = 20
_BESIDE = 0.01  # of a step, spent in something that is no training
_AHEAD = 1.5  # a step faster than usual makes up for a slow one only so far


@dataclass(frozen=True)
class Bins:
    """How a node's time is cut: `length` bins of `width` seconds, the first begins at second
    `first` of the node's clock (:mod:`..seconds`)."""

    node: str
    first: int
    length: int
    width: int


@dataclass(frozen=True)
class Drops:
    """One node. `marks`: bit t for bin t; `judged`: bins whose throughput is known."""

    bins: Bins
    marks: int
    judged: int


def cut_into_bins(
    timeline: Timeline, borders: pl.DataFrame, most: int, most_seconds: int
) -> tuple[dict[str, Bins], int]:
    """Bins of each node's training without warm-up, all equally wide, at most `most` a node; and
    each how many-th second is looked at, so that all nodes together have `most_seconds` of them."""
    by_node = {str(node): border for node, border in borders.select("node", "border").iter_rows()}
    seconds = {
        node: ((opens - by_node[node]) // NS + 1, (closes - by_node[node]) // NS)
        for node, opens, closes in training_spans(timeline).iter_rows()
        if node in by_node
    }
    longest = max((last - first for first, last in seconds.values()), default=0)
    every = max(1, -(-sum(last - first for first, last in seconds.values()) // most_seconds))
    width = max(every, -(-longest // most))
    bins = {
        node: Bins(node, first, max(0, (last - first) // width), width)
        for node, (first, last) in seconds.items()
    }
    return bins, every


def find_drops(
    steps: pl.DataFrame,
    timeline: Timeline,
    units: Sequence[Unit],
    bins: dict[str, Bins],
    borders: pl.DataFrame,
    limits: Limits,
) -> dict[str, Drops]:
    """By node. `steps`: as :func:`..steps.find_steps` makes them."""
    speakers = _speakers(timeline, units)
    told = steps.select("proc", "t0", "gross_s", "net_s", "broken")
    mine = told.filter(pl.col("proc").is_in(list(speakers)))
    border_of = {str(node): border for node, border in borders.select("node", "border").rows()}
    known = {*bins} & {*border_of}
    places = {proc: bins[node] for proc, node in speakers.items() if node in known}
    begins = {proc: border_of[one.node] + one.first * NS for proc, one in places.items()}
    cut = in_parts(_with_rate(mine), partial(_cut, bins=places, begins=begins))
    rates = cut.group_by("node", "bin").agg(
        pl.col("part_s").sum(), (pl.col("part_s") * pl.col("rate")).sum().alias("done_s")
    )
    judged = rates.filter(pl.col("part_s") > 0).select(
        "node", "bin", (pl.col("done_s") <= (1 - limits.drop) * pl.col("part_s")).alias("drop")
    )
    return {
        name: Drops(
            one,
            to_marks(_bins_of(judged.filter("drop"), name)),
            to_marks(_bins_of(judged, name)),
        )
        for name, one in bins.items()
    }


def to_marks(bins: Sequence[int]) -> int:
    """The set of these bins (none negative) as a number."""
    if not bins:
        return 0
    text = bytearray(max(bins) // 8 + 1)
    for each in bins:
        text[each >> 3] |= 1 << (each & 7)
    return int.from_bytes(text, "little")


def _bins_of(rows: pl.DataFrame, node: str) -> list[int]:
    return rows.filter(pl.col("node") == node)["bin"].to_list()


def _speakers(timeline: Timeline, units: Sequence[Unit]) -> dict[int, str]:
    """proc -> node: of each unit the process with most steps on each of its nodes."""
    found: dict[int, str] = {}
    for unit in units:
        longest: dict[str, int] = {}
        for proc in unit.procs:
            node = timeline.by_proc[proc].node
            best = longest.get(node)
            if best is None or timeline.by_proc[proc].steps > timeline.by_proc[best].steps:
                longest[node] = proc
        found.update({proc: str(node) for node, proc in longest.items()})
    return found


def _with_rate(steps: pl.DataFrame) -> pl.DataFrame:
    """(proc, t0, gross_s, rate) of the steps that say something."""
    at = pl.int_range(pl.len()).over("proc")
    parts = (pl.len().over("proc") // _STEPS_IN_A_PART).clip(1, _PARTS)
    # Steps come by process and time, so they need no sorting.
    marked = steps.with_columns((at * parts // pl.len().over("proc")).alias("part"))
    plain = (
        ~pl.col("broken")
        & (pl.col("net_s") > 0)
        & (pl.col("gross_s") - pl.col("net_s") <= _BESIDE * pl.col("gross_s"))
    )
    usual = pl.col("net_s").filter(plain).median().over("proc", "part")
    rate = (usual / pl.col("net_s")).clip(0, _AHEAD)
    return marked.with_columns(rate.alias("rate")).filter(plain).drop_nulls("rate").select(
        "proc", "t0", "gross_s", "rate"
    )  # fmt: skip


def _cut(steps: pl.DataFrame, bins: Mapping[int, Bins], begins: Mapping[int, int]) -> pl.DataFrame:
    """(node, bin, part_s, rate): steps cut at the borders of bins. `bins`, and where they begin
    (monotonic ns), by proc: all are equally wide."""
    proc, long = pl.col("proc"), max((one.width for one in bins.values()), default=1) * NS
    begin = pl.col("t0") - proc.replace_strict(begins, default=None, return_dtype=pl.Int64)
    placed = steps.select(
        "proc", "rate", begin.alias("from"),
        (begin + (pl.col("gross_s") * NS).cast(pl.Int64)).alias("to"),
    )  # fmt: skip
    lengths = {one: each.length for one, each in bins.items()}
    length = proc.replace_strict(lengths, default=None, return_dtype=pl.Int64)
    first = (pl.col("from") // long).clip(0)
    last = pl.min_horizontal((pl.col("to") - 1) // long, length - 1)
    inside = placed.with_columns(first.alias("bin"), last.alias("high")).filter(
        pl.col("from").is_not_null() & (pl.col("bin") <= pl.col("high"))
    )
    whole = inside.filter(pl.col("bin") == pl.col("high"))
    several = inside.filter(pl.col("bin") < pl.col("high")).with_columns(
        pl.int_ranges("bin", pl.col("high") + 1, dtype=pl.Int64).alias("bin")
    )
    # Most steps lie in one bin; to make lists of one and take them apart is dear.
    pieces = pl.concat([whole, several.explode("bin")])
    start = pl.max_horizontal("from", pl.col("bin") * long)
    end = pl.min_horizontal("to", (pl.col("bin") + 1) * long)
    nodes = pl.Enum(sorted({one.node for one in bins.values()}))
    names = {one: each.node for one, each in bins.items()}
    return pieces.select(
        proc.replace_strict(names, default=None, return_dtype=nodes).alias("node"),
        "bin", ((end - start).clip(0) / NS).alias("part_s"), "rate",
    )  # fmt: skip
