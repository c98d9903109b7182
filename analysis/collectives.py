"""How long each rank waits in collectives beyond the rank that waits least, as stacks tell.

A rank that waits for data comes late to the exchange and finds the others waiting there. One that
has to wait there itself, though it waited for data, is held by a rank whose work is longer: that
much of its data wait cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from slurm_io.analysis.host_rows import rows_in_training
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.lockstep import Unit
from slurm_io.analysis.timeline import Timeline

_COLUMNS = ("pid", "role", "state", "samples")
_BEYOND = 3.0  # standard errors of the difference; less may be chance


def collective_slacks(
    tables: Tables, timeline: Timeline, units: Sequence[Unit], least_looks: int
) -> dict[int, float]:
    """proc -> share of its time in collectives less the unit's least; units all of whose members
    were looked at often enough. Others, and what chance explains, are left out."""
    if not any(unit.is_synchronous for unit in units):
        return {}
    shares = _shares(tables, timeline, least_looks)
    found: dict[int, float] = {}
    for unit in units:
        mine = {proc: shares[proc] for proc in unit.procs if proc in shares}
        if not unit.is_synchronous or len(mine) < len(unit.procs):
            continue
        least, its_looks = min(mine.values())
        for proc, (share, looks) in mine.items():
            error = (share * (1 - share) / looks + least * (1 - least) / its_looks) ** 0.5
            if share - least > _BEYOND * error:
                found[proc] = share - least
    return found


def _shares(tables: Tables, timeline: Timeline, least_looks: int) -> dict[int, tuple[float, int]]:
    """proc -> (share of looks in a collective, looks)."""
    read = rows_in_training(tables, timeline, "stacks", _COLUMNS)
    looks = pl.col("samples").sum()
    waiting = pl.col("samples").filter(pl.col("state") == "collective").sum()
    counted = (
        read.rows.filter(pl.col("role") == "rank")
        .drop_nulls(["pid", "state", "samples"])
        .group_by("node", "pid")
        .agg(looks.alias("looks"), waiting.alias("waiting"))
        .filter(pl.col("looks") >= least_looks)
    )
    procs = {(process.node, process.pid): process.proc for process in timeline.processes}
    return {
        procs[node, pid]: (waiting / looks, looks)
        for node, pid, looks, waiting in counted.rows()
        if (node, pid) in procs
    }
