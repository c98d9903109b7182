"""Where the driver contradicts the events: it saw kernels while the streams asked stood idle.

The events tell of two streams at most (docs/gpu-proof.md). Work on others, or another program's on
the same GPU, shows in `util_share`: the part of time with a kernel resident. Idle time by the
events and that part together are about the whole window; where they are clearly more, the lower end
of a loss must not rest on the events alone.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from slurm_io.analysis.facts import mapping, sources_of
from slurm_io.analysis.inputs import NodeView, Tables
from slurm_io.analysis.timeline import Process, Timeline

_COLUMNS = ("mono_ns", "mig", "uuid", "util_share")
_LEAST_LOOKS = 10
_MORE_THAN_ALL = 1.2


def doubt(rows: pl.DataFrame, tables: Tables, timeline: Timeline) -> pl.DataFrame:
    """Lower lost_low_s of measured waits to what the driver leaves room for.

    Adds `room`: the part of a process's measured idle time that is left; 1 where there is no doubt.
    """
    rooms = _rooms(rows, tables, timeline)
    if not rooms:
        return rows.with_columns(pl.lit(1.0).alias("room"))
    frame = pl.DataFrame(
        list(rooms.items()), schema={"proc": pl.Int32, "room": pl.Float64}, orient="row"
    )
    known = pl.col("gpu_idle_s").is_not_null()
    room = pl.when(known).then(pl.col("room")).otherwise(1.0)
    joined = rows.join(frame, on="proc", how="left", maintain_order="left")
    joined = joined.with_columns(pl.col("room").fill_null(1.0))
    return joined.with_columns((pl.col("lost_low_s") * room).alias("lost_low_s"))


def _rooms(rows: pl.DataFrame, tables: Tables, timeline: Timeline) -> dict[int, float]:
    """proc -> room, of the processes in doubt."""
    idle = rows.group_by("proc").agg(pl.col("gpu_idle_s").sum())
    idle_s: dict[int, float] = dict(idle.filter(pl.col("gpu_idle_s") > 0).iter_rows())
    if not idle_s:
        return {}
    looks = tables.frame("gpu", _COLUMNS).filter(pl.col("mig").is_null()).drop_nulls("util_share")
    found = {}
    for proc, seconds in idle_s.items():
        process = timeline.by_proc[proc]
        busy = _busy_share(looks, process, tables.store.nodes[process.node])
        share = min(1.0, seconds / process.window_s) if process.window_s > 0 else 0.0
        if busy is not None and share + busy > _MORE_THAN_ALL:
            found[proc] = min(1.0, (1 - busy) / share)
    return found


def _busy_share(looks: pl.DataFrame, process: Process, view: NodeView) -> float | None:
    """Mean part of time with a kernel resident on the process's GPUs, in its window; 0..1."""
    mine = looks.filter(
        (pl.col("node") == process.node)
        & pl.col("mono_ns").is_between(process.opens, process.closes)
    )
    gpus = _gpus_of(process, view)
    if gpus is not None:
        mine = mine.filter(pl.col("uuid").is_in(gpus))
    elif mine["uuid"].n_unique() != 1:
        return None
    mean: Any = mine["util_share"].clip(0, 1).mean()
    return float(mean) if mine.height >= _LEAST_LOOKS and mean is not None else None


def _gpus_of(process: Process, view: NodeView) -> list[str] | None:
    """Ids of the GPUs that are known to be this rank's."""
    ranks = mapping(sources_of(view).get("gpu", {}).get("ranks"))
    gpus = mapping(ranks.get(str(process.rank))).get("gpus")
    if not isinstance(gpus, list):
        return None
    return [each for each in gpus if isinstance(each, str)] or None
