"""Whether writing a checkpoint beside training makes reading slower.

The time from one background write to the next is a cycle: first the write, then the rest. Data
waits of the seconds in the first part are held against those of the rest, on the node that wrote
longest; how easily that comes by chance says :mod:`..alignment.rotation_test`. Seconds in which
training stood still for a save, an evaluation or a load are no reading and left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.alignment.rotation_test import Cycle, rotation_test
from slurm_io.analysis.batches import NS
from slurm_io.analysis.causes import Causes
from slurm_io.analysis.checkpoints.saves import save_calls
from slurm_io.analysis.thresholds import Saves as Limits
from slurm_io.analysis.timeline import Timeline

_COVERED = 0.5  # of a second


@dataclass(frozen=True)
class Interference:
    """`during`, `outside`: share of the seconds that the node's processes waited for data, while a
    checkpoint was written beside training and while none was. `p`: that the difference is chance.
    None with a `reason` where it could not be tested. `extra_s`: waiting beyond the usual, of one
    process."""

    node: str | None
    cycles: int
    writing_s: float | None
    during: float | None
    outside: float | None
    p: float | None
    extra_s: float | None
    reason: str | None


def find_interference(timeline: Timeline, causes: Causes, limits: Limits) -> Interference:
    """Of the node with the longest background writes."""
    calls = save_calls(timeline)
    aside = calls.filter("aside")
    if aside.is_empty():
        return _none("no checkpoint was written beside training")
    node = _busiest(aside)
    borders = dict(causes.phases.with_columns(pl.col("node").cast(pl.String)).iter_rows())
    border = borders.get(node)
    if border is None:
        return _none("no batch was timed while a checkpoint was written beside training", node)
    mine = [one for one in timeline.processes if str(one.node) == node]
    writes = _joined(aside.filter(pl.col("node").cast(pl.String) == node), border)
    first = max(one.opens for one in mine) - border
    last = min(one.closes for one in mine) - border
    waits = _waits(causes, [one.proc for one in mine])
    still = _still(timeline, [one.proc for one in mine], border)
    cycles = _cycles(writes, first, last, waits, still)
    usable = [one for one in cycles if one.is_usable]
    if len(usable) < limits.least_cycles:
        return _none(
            f"{len(usable)} background writes of a second and more with reading before the next: "
            f"at least {limits.least_cycles} are needed", node, len(usable),
        )  # fmt: skip
    heads = [value for one in usable for value in one.values[: one.head]]
    rests = [value for one in usable for value in one.values[one.head :]]
    during, outside = sum(heads) / len(heads), sum(rests) / len(rests)
    return Interference(
        node=node,
        cycles=len(usable),
        writing_s=float(len(heads)),
        during=during,
        outside=outside,
        p=rotation_test(usable, limits.turns),
        extra_s=(during - outside) * len(heads),
        reason=None,
    )


def _none(reason: str, node: str | None = None, cycles: int = 0) -> Interference:
    return Interference(node, cycles, None, None, None, None, None, reason)


def _busiest(aside: pl.DataFrame) -> str:
    sums = aside.group_by(pl.col("node").cast(pl.String)).agg(
        (pl.col("end") - pl.col("start")).sum().alias("ns")
    )
    return str(sums.sort("ns", "node", descending=[True, False])["node"][0])


def _joined(aside: pl.DataFrame, border: int) -> list[tuple[int, int]]:
    """Spans of background writing of all the node's processes, overlaps joined."""
    found: list[tuple[int, int]] = []
    for start, end in aside.sort("start").select("start", "end").iter_rows():
        if found and start - border <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end - border))
        else:
            found.append((start - border, end - border))
    return found


def _waits(causes: Causes, procs: Sequence[int]) -> dict[int, float]:
    """Second -> mean wait for data of these processes."""
    mine = causes.seconds.filter(pl.col("proc").is_in(list(procs)))
    sums = mine.group_by("sec").agg(pl.col("wait_s").sum() / len(procs))
    return dict(sums.select("sec", "wait_s").iter_rows())


def _still(timeline: Timeline, procs: Sequence[int], border: int) -> set[int]:
    """Seconds that touch a stretch in which a process did not train."""
    rows = timeline.stretches.filter(pl.col("proc").is_in(list(procs)))
    found: set[int] = set()
    for start, end in rows.select("start", "end").iter_rows():
        found.update(range((start - border) // NS, (end - 1 - border) // NS + 1))
    return found


def _cycles(
    writes: Sequence[tuple[int, int]],
    first: int,
    last: int,
    waits: dict[int, float],
    still: set[int],
) -> list[Cycle]:
    found = []
    for place, (start, end) in enumerate(writes):
        until = min(writes[place + 1][0] if place + 1 < len(writes) else last, last)
        begin = max(start, first)
        seconds = [
            second for second in range(-(-begin // NS), until // NS) if second not in still
        ]  # fmt: skip
        head = sum(1 for second in seconds if end - second * NS >= _COVERED * NS)
        found.append(Cycle(tuple(waits.get(second, 0.0) for second in seconds), head))
    return found
