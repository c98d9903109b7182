"""Who wrote how much of the checkpoints, and how fast, against what the storage could take.

Bytes come from the hook where each call told its size; else from the kernel's count of what the
saving processes and their descendants sent to the storage layer in those seconds
(/proc/PID/io write_bytes). What was possible is the site's own figure, else the best that the
mount showed in this run: its client's writes, or those of the block devices under it, held for
three seconds, over all nodes together. That is a lower bound of what it can do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import polars as pl

from slurm_io.analysis.batches import NS
from slurm_io.analysis.checkpoints.saves import Save, save_calls
from slurm_io.analysis.devices import leaves_of
from slurm_io.analysis.inputs import StoreView, Tables
from slurm_io.analysis.samples import assign
from slurm_io.analysis.thresholds import Saves as Limits
from slurm_io.analysis.timeline import Timeline

_COLUMNS = ("mono_ns", "interval_ns", "rank", "write_bytes")
_WRITER = 0.01  # of a checkpoint's bytes: less is a log or a metadata file
_LONGEST_NS = 600 * NS
_KIB = 1024


@dataclass(frozen=True)
class Written:
    """`kind`: "one process" (the job is one), "single rank", "some ranks", "sharded" (all of them),
    or None where nobody knows. `by_proc`: bytes in all saves; `source` says who counted."""

    kind: str | None
    by_proc: dict[int, int]
    bytes: int | None
    source: str | None
    reason: str | None


@dataclass(frozen=True)
class Rate:
    """Bytes a second. `achieved`: median of the saves; `possible` with its `base`, or the `reason`
    why it is not known."""

    achieved: float | None
    possible: float | None
    base: str | None
    reason: str | None

    @property
    def share(self) -> float | None:
        """Of what was possible. Above 1 where the page cache took what the mount had not yet."""
        if self.achieved is None or not self.possible:
            return None
        return self.achieved / self.possible


def find_written(tables: Tables, timeline: Timeline, saves: Sequence[Save]) -> Written:
    """Over all saves together."""
    whole = [one for one in saves if not one.failed]
    if whole and all(one.bytes is not None for one in whole):
        by_proc: dict[int, int] = {}
        for one in whole:
            for proc, size in one.bytes_of.items():
                by_proc[proc] = by_proc.get(proc, 0) + size
        return _written(by_proc, timeline, "the saves told their size")
    counted = _counted(tables, timeline)
    if not counted:
        return Written(
            None, {}, None, None,
            "the saves told no size, and what their processes wrote was not counted",
        )  # fmt: skip
    return _written(counted, timeline, "counted by the kernel in the seconds of the saves")


def _written(by_proc: dict[int, int], timeline: Timeline, source: str) -> Written:
    total = sum(by_proc.values())
    writers = [proc for proc, size in by_proc.items() if size > _WRITER * total]
    ranks = len(timeline.processes)
    if ranks == 1:
        kind = "one process"
    elif len(writers) == 1:
        kind = "single rank"
    else:
        kind = "sharded" if len(writers) == ranks else "some ranks"
    return Written(kind, by_proc, total, source, None)


def _counted(tables: Tables, timeline: Timeline) -> dict[int, int]:
    """proc -> write_bytes of it and its descendants in the rows that touch a save of it. Between
    saves a training process writes next to nothing, so these rows are the saves'."""
    rows = tables.frame("process", _COLUMNS).drop_nulls(["mono_ns", "interval_ns", "write_bytes"])
    rows = rows.filter(pl.col("interval_ns").is_between(1, _LONGEST_NS))
    placed = assign(rows.with_columns(pl.col("rank").fill_null(-1)), timeline.rows)
    calls = save_calls(timeline).select("proc", "start", "end").sort("start")
    spans = calls.with_columns(pl.col("end").cum_max().over("proc"))
    near = placed.sort("mono_ns").join_asof(
        spans, left_on="mono_ns", right_on="start", by="proc", strategy="backward",
        check_sortedness=False,
    )  # fmt: skip
    near = near.drop_nulls("start")  # before the first save
    touches = pl.col("mono_ns") - pl.col("interval_ns") < pl.col("end")
    sums = near.filter(touches).group_by("proc").agg(pl.col("write_bytes").sum()).sort("proc")
    return {proc: size for proc, size in sums.iter_rows() if size > 0}


def find_rate(
    tables: Tables,
    timeline: Timeline,
    saves: Sequence[Save],
    written: Written,
    mount: tuple[str, str | None] | None,
    limits: Limits,
) -> Rate:
    """`mount`: where the checkpoints go, with its type."""
    achieved = _achieved(saves, written)
    if limits.possible_bytes_per_s is not None:
        return Rate(achieved, limits.possible_bytes_per_s, "the site's configuration", None)
    if mount is None:
        return Rate(achieved, None, None, "which mount the checkpoints go to is not known")
    nodes = {one.node for one in timeline.processes}
    best = _best(_client_writes(tables, mount, nodes), limits.best_s)
    if best is not None:
        base = f"the best {limits.best_s} s of the client's writes to {mount[0]} in this run"
        return Rate(achieved, best, base, None)
    best = _best(_device_writes(tables, mount[0], nodes), limits.best_s)
    if best is not None:
        base = f"the best {limits.best_s} s of writes to the devices of {mount[0]} in this run"
        return Rate(achieved, best, base, None)
    return Rate(achieved, None, None, f"nobody counts what is written to {mount[0]}")


def _achieved(saves: Sequence[Save], written: Written) -> float | None:
    """Bytes over the time of writing: of each save where it told both, else of all together."""
    told = [
        one.bytes / one.writing_s for one in saves if one.bytes and one.writing_s > 0
    ]  # fmt: skip
    if told and len(told) == len([one for one in saves if not one.failed]):
        return median(told)
    seconds = sum(one.writing_s for one in saves)
    return written.bytes / seconds if written.bytes and seconds > 0 else None


def mount_of(
    path: str | None, store: StoreView, sampled: str | None
) -> tuple[str, str | None] | None:
    """(mount, type) that holds `path`, by the mounts that the nodes have; else `sampled`."""
    known: dict[str, str | None] = {}
    for view in store.nodes.values():
        told = view.meta.get("mounts")
        for each in told if isinstance(told, list) else []:
            if isinstance(each, Mapping) and isinstance(each.get("mount"), str):
                fstype = each.get("fstype")
                known[each["mount"]] = fstype if isinstance(fstype, str) else None
    holding = [name for name in known if path is not None and _holds(name, path)]
    if holding:
        longest = max(holding, key=len)
        return longest, known[longest]
    return (sampled, known.get(sampled)) if sampled is not None else None


def _holds(mount: str, path: str) -> bool:
    return mount == "/" or path == mount or path.startswith(mount.rstrip("/") + "/")


def _client_writes(tables: Tables, mount: tuple[str, str | None], nodes: set[str]) -> pl.DataFrame:
    columns = ("ts_ns", "interval_ns", "mount", "fstype", "op_class", "bytes")
    rows = tables.frame("fsclient", columns).filter(pl.col("op_class") == "write")
    mine = rows.filter(pl.col("mount") == mount[0])
    if mine.is_empty() and mount[1] is not None:  # one set of counters for all mounts of a type
        mine = rows.filter((pl.col("mount") == "*") & (pl.col("fstype") == mount[1]))
    return _by_second(mine, pl.col("bytes"), nodes)


def _device_writes(tables: Tables, mount: str, nodes: set[str]) -> pl.DataFrame:
    rows = tables.frame("block", ("ts_ns", "interval_ns", "device", "wkB_s"))
    pairs = pl.DataFrame(
        [(name, device) for name, view in tables.store.nodes.items()
         for device in leaves_of(view).get(mount, ())],
        schema={"name": pl.String, "device": pl.String}, orient="row",
    )  # fmt: skip
    named = rows.with_columns(pl.col("node").cast(pl.String).alias("name"))
    mine = named.join(pairs, on=["name", "device"], how="semi")
    moved = pl.col("wkB_s") * _KIB * pl.col("interval_ns") / NS
    return _by_second(mine, moved, nodes)


def _by_second(rows: pl.DataFrame, moved: pl.Expr, nodes: set[str]) -> pl.DataFrame:
    """(sec, rate): bytes a second of UTC, over the nodes that train."""
    known = rows.filter(
        pl.col("node").cast(pl.String).is_in(list(nodes)) & (pl.col("interval_ns") > 0)
    )
    rate = moved * NS / pl.col("interval_ns")
    seconds = known.select((pl.col("ts_ns") // NS).alias("sec"), rate.alias("rate")).drop_nulls()
    return seconds.group_by("sec").agg(pl.col("rate").sum()).filter(pl.col("rate") > 0).sort("sec")


def _best(seconds: pl.DataFrame, length: int) -> float | None:
    """The highest mean of `length` neighbouring seconds; a second without a row wrote nothing."""
    rates = dict(seconds.iter_rows())
    return max(
        (sum(rates.get(sec + late, 0.0) for late in range(length)) / length for sec in rates),
        default=None,
    )
