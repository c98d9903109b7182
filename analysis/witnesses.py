"""Independent signals that agree (or not) with "the loader waited for storage".

The wait samples are the first witness: what the kernel says the processes slept in. The others
count something else: read calls against time (effective latency), the device, the file system's
client, the kernel's delay accounting, pressure. A witness that cannot be heard is None with its
reason; one that is heard and sees nothing does not acquit (pressure near 0 proves nothing on
network storage).
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.causes import Causes
from slurm_io.analysis.devices import leaf_rows
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.latency import ReadLatency, read_latency
from slurm_io.analysis.thresholds import Thresholds

LOCAL_FSTYPES = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs"})
_STALLED_S = 0.2  # storage wait in one second of one process that makes the second a stalled one
_QUIET_S = 0.05


@dataclass(frozen=True)
class Witness:
    """One signal. `agrees` is None when it could not be heard (`text` says why)."""

    name: str
    agrees: bool | None
    text: str
    metric: str
    value: float | None = None
    threshold: float | None = None


def hear_witnesses(
    tables: Tables, causes: Causes, fstypes: frozenset[str], thresholds: Thresholds
) -> tuple[Witness, ...]:
    """All witnesses on data waits; the samples first."""
    latency = read_latency(tables, causes)
    moods = _moods(causes)
    return (
        _samples(causes, thresholds),
        _effective_latency(latency, thresholds),
        _delay_accounting(latency, thresholds),
        _block(tables, causes, moods, fstypes, thresholds),
        _client(tables, causes, moods, thresholds),
        _pressure(tables, causes, moods, thresholds),
    )


def _samples(causes: Causes, thresholds: Thresholds) -> Witness:
    passes = float(causes.evidence["passes"].sum())
    hits = sum(float(causes.evidence[name].sum()) for name in ("storage", "net"))
    enough = thresholds.enough
    if passes < enough.wait_samples:
        text = f"only {passes:.0f} wait samples fell into data waits"
        return Witness("waits", None, text, "storage_samples", passes, enough.wait_samples)
    text = f"{hits:.0f} of {passes:.0f} samples taken while data was awaited were in storage"
    agrees = hits >= enough.cause_samples
    return Witness("waits", agrees, text, "storage_samples", hits, enough.cause_samples)


def _effective_latency(latency: ReadLatency | None, thresholds: Thresholds) -> Witness:
    limit = thresholds.witness
    name, metric = "read latency", "latency_ratio"
    if latency is None or latency.calls is None:
        text = "the processes' read calls and faults were not recorded"
        return Witness(name, None, text, metric)
    if latency.storage_s < limit.min_storage_s:
        text = f"only {latency.storage_s:.1f} s in storage waits were seen"
        return Witness(name, None, text, metric)
    expected = (
        latency.calls * limit.expected_call_s + (latency.bytes or 0) / limit.expected_bytes_per_s
    )
    ratio = latency.storage_s / max(expected, limit.expected_call_s)
    each = latency.storage_s / max(latency.calls, 1)
    text = (
        f"{latency.storage_s:.1f} s in storage waits for {latency.calls} read calls and faults "
        f"({each * 1000:.1f} ms each); a healthy tier needs {expected:.1f} s"
    )
    agrees = ratio >= limit.latency_ratio
    return Witness(name, agrees, text, metric, ratio, limit.latency_ratio)


def _delay_accounting(latency: ReadLatency | None, thresholds: Thresholds) -> Witness:
    limit = thresholds.witness
    name, metric = "task I/O delay", "blkio_delay_share"
    if latency is None or not latency.blkio_s:
        return Witness(name, None, "the kernel's delay accounting is off or saw nothing", metric)
    if latency.storage_s < limit.min_storage_s:
        return Witness(name, None, "too little storage wait to compare with", metric)
    share = latency.blkio_s / latency.storage_s
    text = (
        f"the kernel's delay accounting counted {latency.blkio_s:.1f} s of I/O delay in the same "
        f"processes and seconds"
    )
    return Witness(name, share >= limit.blkio_share, text, metric, share, limit.blkio_share)


def _moods(causes: Causes) -> pl.DataFrame:
    """(node, sec, mood): stalled or quiet; what lies between is left out."""
    by_second = causes.seconds.group_by("node", "sec").agg(pl.col("storage_s").max())
    mood = (
        pl.when(pl.col("storage_s") >= _STALLED_S)
        .then(pl.lit("stalled"))
        .when(pl.col("storage_s") <= _QUIET_S)
        .then(pl.lit("quiet"))
    )
    return by_second.with_columns(mood.alias("mood")).drop_nulls("mood")


def _in_moods(
    tables: Tables, table: str, columns: tuple[str, ...], causes: Causes, moods: pl.DataFrame
) -> pl.DataFrame:
    """Rows of a 1 Hz table with `sec` and the mood of their second."""
    raw = tables.frame(table, ("mono_ns", "interval_ns", *columns))
    raw = raw.drop_nulls(["mono_ns", "interval_ns"])
    middle = pl.col("mono_ns") - pl.col("interval_ns") // 2 - pl.col("border")
    placed = raw.join(causes.phases, on="node").with_columns((middle // 1_000_000_000).alias("sec"))
    return placed.join(moods, on=["node", "sec"], how="inner")


def _block(
    tables: Tables,
    causes: Causes,
    moods: pl.DataFrame,
    fstypes: frozenset[str],
    thresholds: Thresholds,
) -> Witness:
    name, metric = "block device", "r_await_ms"
    if not fstypes & LOCAL_FSTYPES:
        return Witness(name, None, "the stalled mounts are not on a local block device", metric)
    rows = _in_moods(tables, "block", ("device", "role", "r_await"), causes, moods)
    rows = leaf_rows(rows, tables.store, _stalled_mounts(causes))
    limit = thresholds.witness
    limits = (limit.block_await_ratio, limit.block_await_floor_ms, limit.block_await_limit_ms)
    return _latency_contrast(name, metric, rows, ["node", "device"], "r_await", limits)


def _stalled_mounts(causes: Causes) -> list[tuple[str, str]]:
    """(node, mount) of the storage waits."""
    hits = causes.samples.filter((pl.col("n_storage") > 0) & pl.col("mount").is_not_null())
    pairs = hits.select(pl.col("node").cast(pl.String), "mount").unique().sort("node", "mount")
    return [(node, mount) for node, mount in pairs.iter_rows()]


def _client(tables: Tables, causes: Causes, moods: pl.DataFrame, thresholds: Thresholds) -> Witness:
    rows = _in_moods(tables, "fsclient", ("mount", "op_class", "exe_ms"), causes, moods)
    rows = rows.filter(pl.col("op_class").is_in(["read", "meta"]))
    limit = thresholds.witness
    limits = (limit.client_ratio, limit.client_floor_ms, limit.client_limit_ms)
    keys = ["node", "mount", "op_class"]
    return _latency_contrast("file system client", "exe_ms", rows, keys, "exe_ms", limits)


def _latency_contrast(
    name: str,
    metric: str,
    rows: pl.DataFrame,
    keys: list[str],
    column: str,
    limits: tuple[float, float, float],
) -> Witness:
    """The worst device or mount: its median in stalled seconds over that in quiet ones."""
    ratio, floor_ms, limit_ms = limits
    medians = rows.drop_nulls(column).group_by(keys).agg(
        pl.col(column).filter(pl.col("mood") == mood).median().alias(mood)
        for mood in ("stalled", "quiet")
    )  # fmt: skip
    medians = medians.drop_nulls("stalled").sort("stalled", descending=True)
    if medians.is_empty():
        return Witness(name, None, "no latencies were recorded while data was awaited", metric)
    worst = medians.row(0, named=True)
    stalled, quiet = worst["stalled"], worst["quiet"]
    above = quiet is not None and stalled >= max(floor_ms, ratio * quiet)
    where = " ".join(str(worst[key]) for key in keys if key != "node")
    usual = f", {quiet:.1f} ms in quiet ones" if quiet is not None else ""
    text = f"{where} on {worst['node']}: median {stalled:.1f} ms in stalled seconds{usual}"
    threshold = limit_ms if quiet is None else max(floor_ms, ratio * quiet)
    return Witness(name, above or stalled >= limit_ms, text, metric, stalled, threshold)


def _pressure(
    tables: Tables, causes: Causes, moods: pl.DataFrame, thresholds: Thresholds
) -> Witness:
    name, metric = "I/O pressure", "psi_io_some_share"
    rows = _in_moods(tables, "node", ("psi_io_some_ns",), causes, moods)
    share = pl.col("psi_io_some_ns") / pl.col("interval_ns")
    rows = rows.drop_nulls("psi_io_some_ns").with_columns(share.alias("share"))
    stalled = _median(rows.filter(pl.col("mood") == "stalled"), "share")
    quiet = _median(rows.filter(pl.col("mood") == "quiet"), "share")
    if stalled is None:
        return Witness(name, None, "no pressure figures while data was awaited", metric)
    limit = thresholds.witness
    threshold = max(limit.psi_share, limit.psi_ratio * (quiet or 0.0))
    text = f"tasks of the node were stalled on I/O for {stalled:.0%} of the stalled seconds"
    return Witness(name, stalled >= min(threshold, 1.0), text, metric, stalled, threshold)


def _median(rows: pl.DataFrame, column: str) -> float | None:
    value = rows[column].median()
    return float(value) if isinstance(value, (int, float)) else None
