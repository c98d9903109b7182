"""Room on the mounts a job saves to: what saves need, what is left, when it will be full.

Space is what an ordinary user may still write (``avail_bytes``), so root's reserve is not counted.
A shared file system is one place however many nodes asked; a local one is a place on each node.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from slurm_io.analysis.facts import mapping
from slurm_io.analysis.host_rows import sparse, training_spans
from slurm_io.analysis.inputs import StoreView, Tables
from slurm_io.analysis.timeline import Timeline
from slurm_io.analysis.witnesses import LOCAL_FSTYPES

NO_SPACE = {28: "ENOSPC", 122: "EDQUOT"}
SAVE_KINDS = ("ckpt_save", "ckpt_async", "ckpt_background")
_EVENTS = ("ts_ns", "pid", "kind", "failed", "bytes", "path", "detail", "step")
_CAPACITY = (
    "ts_ns",
    "mono_ns",
    "mount",
    "fstype",
    "avail_bytes",
    "size_bytes",
    "inodes",
    "inodes_avail",
)
_PRIVATE_FSTYPES = LOCAL_FSTYPES | {"tmpfs", "ramfs", "overlay"}
_PERIOD_S = 30  # between two rows of a mount
_NEAR_NS = 90_000_000_000  # a failure's room is that of a look at most so far away
_MOST_FAILURES = 20
_LEAST_ROWS = 10  # of the capacity table before a trend is drawn through them: five minutes


@dataclass(frozen=True)
class Failure:
    """Something that ended in an exception. `errno` is None where the hook could not tell it;
    `write_failed`: torch's file writer failed, which names no number; `avail_bytes`: the least room
    on its mount in the looks around it."""

    node: str
    kind: str
    ts_ns: int | None
    path: str | None
    mount: str | None
    errno: int | None
    write_failed: bool
    avail_bytes: int | None


@dataclass(frozen=True)
class Place:
    """One file system the job saved to; `node` None for a shared one. None: not known.

    `save_bytes`: of one save over all ranks (median); `interval_s`: between saves (median);
    `fill_s`: time until it is full, had the job gone on; `reuses_paths`: saves replace one another.
    """

    node: str | None
    mount: str
    fstype: str | None
    saves: int
    save_bytes: int | None
    interval_s: float | None
    reuses_paths: bool
    avail_bytes: int | None
    size_bytes: int | None
    inodes_avail: int | None
    fill_s: float | None
    last_ts_ns: int | None


@dataclass(frozen=True)
class Space:
    """What failed, and where the job saved to."""

    failures: tuple[Failure, ...]
    places: tuple[Place, ...]


def find_space(tables: Tables, timeline: Timeline) -> Space:
    """Failures and places of the whole job, whether it trained or not."""
    events = tables.frame("events", _EVENTS).with_columns(pl.col("node").cast(pl.String))
    known = events.filter(pl.col("kind").is_in([*SAVE_KINDS, "error"]))
    every = sparse(training_spans(timeline), _PERIOD_S)
    rooms = _rooms(tables, every)
    placed = _with_mounts(known, tables.store)
    saves = placed.filter(pl.col("kind").is_in(SAVE_KINDS))
    failed = placed.filter(pl.col("failed").fill_null(False)).sort("ts_ns").head(_MOST_FAILURES)
    failures = tuple(_failure(row, rooms, every) for row in failed.iter_rows(named=True))
    return Space(failures, tuple(_places(saves, rooms)))


def left_at(tables: Tables, path: str) -> list[Place]:
    """What was left at the last look at the mount of `path`, on each node that looked."""
    found = []
    for name, view in tables.store.nodes.items():
        mount, fstype = mount_of(path, mounts_told(view.meta.get("mounts")))
        rooms = _rooms(tables, 1).filter((pl.col("node") == name) & (pl.col("mount") == mount))
        if mount is not None and not rooms.is_empty():
            last = rooms.tail(1).to_dicts()[0]
            found.append(
                Place(
                    node=name, mount=mount, fstype=fstype, saves=0, save_bytes=None,
                    interval_s=None, reuses_paths=False, avail_bytes=last["avail_bytes"],
                    size_bytes=last["size_bytes"],
                    inodes_avail=last["inodes_avail"] if (last["inodes"] or 0) > 0 else None,
                    fill_s=None, last_ts_ns=last["ts_ns"],
                )
            )  # fmt: skip
    return found


def _rooms(tables: Tables, every: int) -> pl.DataFrame:
    raw = tables.frame("capacity", _CAPACITY, every).drop_nulls(["ts_ns", "mount"])
    return raw.with_columns(pl.col("node").cast(pl.String)).sort("ts_ns")


def _with_mounts(events: pl.DataFrame, store: StoreView) -> pl.DataFrame:
    """Add `mount` and `fstype` of each path: the longest mount point of its node above it."""
    pairs = events.drop_nulls("path").select("node", "path").unique()
    told = {name: mounts_told(view.meta.get("mounts")) for name, view in store.nodes.items()}
    found = [(node, path, *mount_of(path, told.get(node, {}))) for node, path in pairs.iter_rows()]
    schema = dict.fromkeys(("node", "path", "mount", "fstype"), pl.String)
    return events.join(
        pl.DataFrame(found, schema=schema, orient="row"), on=["node", "path"], how="left"
    )


def mounts_told(told: object) -> dict[str, str | None]:
    """Mount point -> type, from meta.json."""
    listed = [mapping(one) for one in told] if isinstance(told, list) else []
    return {
        one["mount"]: one.get("fstype") if isinstance(one.get("fstype"), str) else None
        for one in listed
        if isinstance(one.get("mount"), str)
    }


def mount_of(path: str, mounts: dict[str, str | None]) -> tuple[str | None, str | None]:
    """(mount point, type) that `path` lies on; (None, None) when no mount point is above it."""
    above = [point for point in mounts if path == point or path.startswith(point.rstrip("/") + "/")]
    best = max(above, key=len, default=None)
    return (best, mounts[best]) if best is not None else (None, None)


def _failure(row: dict[str, Any], rooms: pl.DataFrame, every: int) -> Failure:
    avail, detail = None, _detail(row["detail"])
    if row["mount"] is not None and row["ts_ns"] is not None:
        mine = rooms.filter((pl.col("node") == row["node"]) & (pl.col("mount") == row["mount"]))
        away = (pl.col("ts_ns") - row["ts_ns"]).abs()
        near = mine.drop_nulls("avail_bytes").filter(away <= _NEAR_NS * every)
        avail = near["avail_bytes"].min() if not near.is_empty() else None
    return Failure(
        node=row["node"], kind=row["kind"], ts_ns=row["ts_ns"], path=row["path"],
        mount=row["mount"], errno=_errno(detail), write_failed=detail.get("write_failed") is True,
        avail_bytes=avail if isinstance(avail, int) else None,
    )  # fmt: skip


def _detail(text: str | None) -> dict[str, Any]:
    try:
        return mapping(json.loads(text or "{}"))
    except ValueError:
        return {}


def _errno(detail: dict[str, Any]) -> int | None:
    number = detail.get("errno")
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _places(saves: pl.DataFrame, rooms: pl.DataFrame) -> Iterable[Place]:
    good = saves.filter(~pl.col("failed").fill_null(False)).drop_nulls("mount")
    private = pl.col("fstype").is_in(sorted(_PRIVATE_FSTYPES))
    keyed = good.with_columns(pl.when(private).then("node").alias("owner"))
    for (owner, mount), mine in sorted(
        keyed.partition_by("owner", "mount", as_dict=True).items(), key=str
    ):
        here = rooms.filter(pl.col("mount") == mount)
        if owner is not None:
            here = here.filter(pl.col("node") == owner)
        yield _place(owner, mount, mine, _one_watcher(here))


def _one_watcher(rows: pl.DataFrame) -> pl.DataFrame:
    """Every node asks the same shared file system: the one that asked most often is enough."""
    counts = rows.group_by("node").len().sort("len", "node", descending=[True, False])
    return rows.filter(pl.col("node") == counts["node"][0]) if not counts.is_empty() else rows


def _place(owner: str | None, mount: str, saves: pl.DataFrame, rooms: pl.DataFrame) -> Place:
    # One asynchronous save has two events: the larger of what they say of a file counts.
    files = saves.group_by("step", "node", "pid", "path").agg(
        pl.col("bytes").max(), pl.col("ts_ns").min()
    )
    rounds = files.group_by("step").agg(pl.col("bytes").sum(), pl.col("ts_ns").min()).sort("ts_ns")
    sizes = rounds["bytes"].filter(rounds["bytes"] > 0)
    between = rounds["ts_ns"].diff().drop_nulls()
    last = rooms.tail(1).to_dicts()[0] if not rooms.is_empty() else {}
    return Place(
        node=owner,
        mount=mount,
        fstype=saves["fstype"].drop_nulls().to_list()[0] if saves["fstype"].count() else None,
        saves=rounds.height,
        save_bytes=_whole(sizes.median()),
        interval_s=_seconds(between.median()),
        reuses_paths=files["path"].n_unique() < files.height,
        avail_bytes=last.get("avail_bytes"),
        size_bytes=last.get("size_bytes"),
        inodes_avail=last.get("inodes_avail") if (last.get("inodes") or 0) > 0 else None,
        fill_s=_time_to_full(rooms.drop_nulls("avail_bytes")),
        last_ts_ns=last.get("ts_ns"),
    )


def _time_to_full(rooms: pl.DataFrame) -> float | None:
    """Seconds from the last look until nothing is left, along a straight line through all looks.

    None when there are too few looks, or no steady fall: files that come and go (the newest few
    checkpoints are kept) are no trend.
    """
    if rooms.height < _LEAST_ROWS:
        return None
    seen = rooms.select(
        ((pl.col("ts_ns") - pl.col("ts_ns").min()) / 1e9).alias("t"),
        pl.col("avail_bytes").cast(pl.Float64).alias("room"),
    )
    spread = seen.select(
        pl.cov("t", "room").alias("both"), pl.var("t").alias("time"), pl.var("room").alias("room")
    ).row(0, named=True)
    if not spread["time"] or not spread["room"]:
        return None
    slope = float(spread["both"] / spread["time"])
    explained = spread["both"] ** 2 / (spread["time"] * spread["room"])
    left, began = float(seen["room"][-1]), float(seen["room"][0])
    if slope >= 0 or explained < 0.5 or began - left < 0.01 * began:
        return None
    return left / -slope


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) else None


def _seconds(value: object) -> float | None:
    return float(value) / 1e9 if isinstance(value, (int, float)) and value > 0 else None
