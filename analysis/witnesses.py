"""Independent signals that agree (or not) with "the loader waited for storage".

The wait samples are the first witness: what the kernel says the processes slept in. The others
count something else: read calls against time (effective latency), the device, the file system's
client and its connections, the time reads spent in the device, the kernel's delay accounting,
pressure, the same data read again from memory. A witness that cannot be heard is None with its
reason; one that is heard and sees nothing does not acquit (pressure near 0 proves nothing on
network storage).
"""

from __future__ import annotations

import polars as pl

from slurm_io.analysis.causes import Causes
from slurm_io.analysis.client_witness import hear_client
from slurm_io.analysis.cold_epoch import cold_contrast
from slurm_io.analysis.device_time import hear_device_time
from slurm_io.analysis.devices import leaf_rows
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.latency import ReadLatency, read_latency
from slurm_io.analysis.moods import in_moods, latency_contrast, moods_of, most_stalled
from slurm_io.analysis.outages import hear_outages
from slurm_io.analysis.read_sources import read_mounts
from slurm_io.analysis.reads import Reads
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.analysis.witness import Witness

__all__ = ["Witness", "hear_witnesses"]

LOCAL_FSTYPES = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs"})


def hear_witnesses(
    tables: Tables,
    causes: Causes,
    fstypes: frozenset[str],
    thresholds: Thresholds,
    reads: Reads | None = None,
) -> tuple[Witness, ...]:
    """All witnesses on data waits; the samples first."""
    latency = read_latency(tables, causes)
    moods = moods_of(tables, causes)
    where = read_mounts(causes.samples, tables.store)
    is_attached = isinstance(tables.store.extra.get("attached"), dict)
    return (
        _samples(causes, thresholds),
        _effective_latency(latency, thresholds),
        _delay_accounting(latency, thresholds),
        _block(tables, causes, moods, fstypes, thresholds),
        hear_device_time(tables, causes, moods, _on_devices(causes), thresholds.witness),
        hear_client(tables, causes, moods, where, thresholds),
        hear_outages(tables.store, causes, moods, where, thresholds.witness),
        cold_contrast(reads, is_attached, thresholds.cold),
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
    rows = in_moods(tables, "block", ("device", "role", "r_await", "stuck"), causes, moods)
    rows = leaf_rows(rows, tables.store, _stalled_mounts(causes))
    limit = thresholds.witness
    limits = (limit.block_await_ratio, limit.block_await_floor_ms, limit.block_await_limit_ms)
    keys = ["node", "device"]
    latency = latency_contrast(name, metric, rows, keys, "r_await", limits)
    # A device that completes nothing has no latency.
    stuck = most_stalled(rows.filter(pl.col("stuck")), moods, keys, limit)
    if latency.agrees or stuck is None:
        return latency
    text = (
        f"{stuck['device']} on {stuck['node']}: requests in flight and none completed in "
        f"{stuck['stalled']} of {stuck['all_stalled']} stalled seconds"
    )
    return Witness(name, True, text, "hanging_share", stuck["share"], limit.hanging_share)


def _stalled_mounts(causes: Causes) -> list[tuple[str, str]]:
    """(node, mount) of the storage waits."""
    hits = causes.samples.filter((pl.col("n_storage") > 0) & pl.col("mount").is_not_null())
    pairs = hits.select(pl.col("node").cast(pl.String), "mount").unique().sort("node", "mount")
    return [(node, mount) for node, mount in pairs.iter_rows()]


def _on_devices(causes: Causes) -> list[tuple[str, str]]:
    """Of :func:`_stalled_mounts` those of local file systems."""
    local = causes.samples.filter(pl.col("fstype").is_in(sorted(LOCAL_FSTYPES)))
    names = set(local["mount"].drop_nulls().to_list())
    return [pair for pair in _stalled_mounts(causes) if pair[1] in names]


def _pressure(
    tables: Tables, causes: Causes, moods: pl.DataFrame, thresholds: Thresholds
) -> Witness:
    name, metric = "I/O pressure", "psi_io_some_share"
    rows = in_moods(tables, "node", ("psi_io_some_ns",), causes, moods)
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
