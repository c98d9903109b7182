"""Whether the device spent the time that processes were seen waiting for it.

A fast device asked for one small read after the other shows no latency worth a word, and training
waits for it all the same. But the time its reads took (diskstats) and the time processes slept in
storage waits (samples) then tell the same story, counted by two who know nothing of each other.
"""

from __future__ import annotations

import polars as pl

from slurm_io.analysis.causes import Causes
from slurm_io.analysis.devices import leaf_rows
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.latency import storage_by_second
from slurm_io.analysis.moods import in_moods
from slurm_io.analysis.thresholds import Witness as Limits
from slurm_io.analysis.witness import Witness

_NAME, _METRIC = "device time", "device_wait_share"


def hear_device_time(
    tables: Tables,
    causes: Causes,
    moods: pl.DataFrame,
    mounts: list[tuple[str, str]],
    limit: Limits,
) -> Witness:
    """Read time in the devices of the awaited `mounts` (node, mount) over the processes' storage
    waits, both in stalled seconds. `mounts` is empty where none is on a local device."""
    if not mounts:
        text = "the stalled mounts are not on a local block device"
        return Witness(_NAME, None, text, _METRIC)
    rows = in_moods(tables, "block", ("device", "role", "r_s", "r_await"), causes, moods)
    rows = leaf_rows(rows.filter(pl.col("mood") == "stalled"), tables.store, mounts)
    took_s = pl.col("r_s") * pl.col("r_await") / 1000 * pl.col("interval_ns") / 1e9
    device = rows.drop_nulls("r_await").group_by("node", "sec").agg(took_s.sum().alias("read_s"))
    waits = storage_by_second(causes).with_columns(pl.col("node").cast(pl.String))
    both = device.join(waits, on=["node", "sec"], how="inner")
    waited_s, read_s = float(both["storage_s"].sum()), float(both["read_s"].sum())
    if waited_s < limit.min_storage_s:
        return Witness(_NAME, None, "the devices told too little of the stalled seconds", _METRIC)
    share = read_s / waited_s
    text = (
        f"reads spent {read_s:.1f} s in the device in seconds in which processes waited "
        f"{waited_s:.1f} s for storage"
    )
    agrees = share >= limit.device_share
    return Witness(_NAME, agrees, text, _METRIC, share, limit.device_share)
