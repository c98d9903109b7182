"""Stalls by cause, and of storage by mount, each mount against its own usual latency.

Several causes at once are normal: a job can wait for one mount that evicts, for another that is
always slow, and for its CPU. The mounts' parts are those of the wait samples whose mount is known;
a mount's latency is that of its own client in seconds in which somebody waited for *it*, against
seconds in which nobody waited for storage.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from slurm_io.analysis.moods import in_moods, moods_of
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.where import Mount

_LEAST_SHARE = 0.005  # of training: less is nobody's cause
_LEAST_PART = 0.05  # of the storage samples: less is a library that was loaded late
_MOST_MOUNTS = 4
_LEAST_ROWS = 5
_COLUMNS = ("mount", "fstype", "source", "op_class", "rtt_ms", "exe_ms")
_OTHERS = {
    "cpu": ("cpu",),
    "pipeline": ("pipeline", "epoch"),
    "unknown": ("unknown", "sleep"),
    "checkpoint": ("ckpt",),
}


def stalls_of(picture: Picture) -> list[dict[str, Any]]:
    """``[{cause, mount, fstype, share, latency: {source, stalled_ms, usual_ms, above}, reason}]``,
    the largest first; shares of training GPU-seconds. `above`: by as much as makes a witness.
    `latency` is of storage's mounts only, null with a `reason` where nobody told any."""
    if picture.losses.base_gpu_s <= 0:
        return []
    found = _storage(picture)
    for cause, names in _OTHERS.items():
        found.append(_stall(cause, picture.losses.share(*names)))
    kept = [one for one in found if one["share"] >= _LEAST_SHARE]
    kept.sort(key=lambda one: (-one["share"], one["cause"], one["mount"] or ""))
    return kept


def _storage(picture: Picture) -> list[dict[str, Any]]:
    share = picture.data_storage.value
    if share < _LEAST_SHARE:
        return []
    # Of a mount and of the object store alike: their samples are what the loss is split by.
    net = picture.where.net_share
    found = [_stall("object store", share * net)] if net else []
    mounts = [one for one in picture.where.mounts if one.share >= _LEAST_PART][:_MOST_MOUNTS]
    rows = _client_rows(picture) if mounts else None
    for one in mounts:
        latency = _latency(picture, rows, one) if rows is not None else None
        reason = None if latency else "its client told no latencies while it was waited for"
        part = share * (1 - net) * one.share
        found.append({**_stall("storage", part, one.mount, one.fstype, reason), "latency": latency})
    left = share * (1 - net) * (1 - sum(one.share for one in mounts))
    why = "which mount is not known" if not mounts else "other mounts"
    return [*found, _stall("storage", left, reason=why)]


def _stall(
    cause: str,
    share: float,
    mount: str | None = None,
    fstype: str | None = None,
    reason: str | None = None,
) -> dict[str, Any]:
    return {
        "cause": cause,
        "mount": mount,
        "fstype": fstype,
        "share": round(share, 6),
        "latency": None,
        "reason": reason,
    }


def _client_rows(picture: Picture) -> pl.DataFrame:
    moods = moods_of(picture.tables, picture.causes)
    rows = in_moods(picture.tables, "fsclient", _COLUMNS, picture.causes, moods)
    timed = rows.with_columns(
        pl.coalesce("exe_ms", "rtt_ms").alias("ms"), pl.col("node").cast(pl.String)
    )
    return timed.filter(pl.col("op_class").is_in(["read", "meta", "any"])).drop_nulls("ms")


def _latency(picture: Picture, rows: pl.DataFrame, mount: Mount) -> dict[str, Any] | None:
    """Of the series of this mount that is furthest above its own usual one."""
    mine = rows.filter(pl.col("mount") == mount.mount)
    if mine.is_empty() and mount.fstype is not None:  # one set of counters for a type's mounts
        mine = rows.filter((pl.col("mount") == "*") & (pl.col("fstype") == mount.fstype))
    waited = (
        picture.causes.samples.filter(
            (pl.col("phase") == "data_wait")
            & (pl.col("n_storage") > 0)
            & (pl.col("mount") == mount.mount)
        )
        .select(pl.col("node").cast(pl.String), "sec", pl.lit(True).alias("its"))
        .unique()
    )
    placed = mine.join(waited, on=["node", "sec"], how="left")
    stalled = (pl.col("mood") == "stalled") & pl.col("its").fill_null(False)
    quiet = pl.col("mood") == "quiet"
    series = placed.group_by("node", "source", "op_class").agg(
        pl.col("ms").filter(stalled).median().alias("stalled_ms"),
        pl.col("ms").filter(stalled).len().alias("rows"),
        pl.col("ms").filter(quiet).median().alias("usual_ms"),
    )
    series = series.filter(pl.col("rows") >= _LEAST_ROWS).with_columns(
        (pl.col("stalled_ms") / pl.col("usual_ms").fill_null(pl.col("stalled_ms"))).alias("times")
    )
    order = ["times", "stalled_ms", "node", "source", "op_class"]
    if series.is_empty():
        return None
    worst = series.sort(order, descending=[True, True, False, False, False]).row(0, named=True)
    limit, usual = picture.thresholds.witness, worst["usual_ms"]
    above = usual is not None and worst["stalled_ms"] >= max(
        limit.client_floor_ms, limit.client_ratio * usual
    )
    return {
        "source": f"{worst['source']} {worst['op_class']} on {worst['node']}",
        "stalled_ms": round(worst["stalled_ms"], 3),
        "usual_ms": None if usual is None else round(usual, 3),
        "above": above or worst["stalled_ms"] >= limit.client_limit_ms,
    }


def mount_line(stalls: list[dict[str, Any]]) -> str | None:
    """Of two and more mounts what each of them cost, for people; None of fewer."""
    mounts = [one for one in stalls if one["mount"] is not None]
    if len(mounts) < 2:
        return None
    return "; ".join(_of_mount(one) for one in mounts)


def _of_mount(one: dict[str, Any]) -> str:
    text = f"{one['mount']} ({one['fstype'] or '?'}) {one['share']:.1%}"
    latency = one["latency"]
    if latency is None:
        return f"{text}, no latencies"
    usual = "" if latency["usual_ms"] is None else f", usually {latency['usual_ms']:.1f} ms"
    return f"{text}, {latency['stalled_ms']:.1f} ms when waited for{usual}"
