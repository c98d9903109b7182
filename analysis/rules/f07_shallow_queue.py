"""F07: training waits for a local device that has hardly anything to do.

What it flags
-------------
Data is awaited, and in these very seconds the device that holds it answers fast, has a short queue
and moves far less than it can.

Why it matters
--------------
An NVMe drive is fast through many requests at once. One reader that waits for each of its reads
gets a few per cent of it, and a faster drive gets the same few per cent.

Evidence
--------
All four together, from the seconds in which storage was awaited: training lost time to storage;
the mean number of requests in the device is below 2; a read takes no longer than such a device
needs; the device reads less than 20 % of what such a device can. Utilisation is not used: it says
busy at one request at a time.

What to do
----------
More readers (workers, threads in a worker), larger reads, more readahead for files read in order,
asynchronous reads (io_uring).

Known false alarms
------------------
Without demand a device is idle as it should be: no wait, no finding. Reads served from the page
cache do not reach the device. Layers (md, dm, partitions) are not counted beside their disks.
Network storage has no device here. What a device can do is taken from its kind, not measured; a
throttled cloud volume is slower than its kind and then answers slowly, so the rule stays quiet. A
limit of the control group (``io.max``) and locks in the file system hold reads up before they reach
the device: then there are far fewer requests in it than ranks waiting, and the rule stays quiet.

Thresholds
----------
``thresholds.device_busy_share`` (20 % of 3 GB/s for NVMe, 0.5 GB/s for an SSD, 0.15 GB/s for a
disk); queue below 2, and 0.3 requests for each rank that waits; read time up to 1, 2 and 15 ms; and
``thresholds.data_share`` (3 %) of training GPU time lost to storage.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.allotted import fitting_workers, workers_now
from slurm_io.analysis.devices import leaf_rows
from slurm_io.analysis.facts import mapping, sources_of
from slurm_io.analysis.host_rows import rows_between
from slurm_io.analysis.picture import Confidence, Picture
from slurm_io.analysis.rule_limits import ShallowQueue
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    no_rows,
    shortness,
)
from slurm_io.analysis.seconds import with_second
from slurm_io.analysis.witnesses import LOCAL_FSTYPES

_COLUMNS = ("device", "role", "r_s", "rkB_s", "r_await", "aqu_sz")
_STALLED_S = 0.2  # storage wait in a second of one process from which it counts as awaited
_KINDS = {"nvme": "NVMe drive", "ssd": "SSD", "disk": "hard disk"}


@dataclass(frozen=True)
class _Device:
    """One disk of a node, over the seconds in which storage was awaited."""

    node: str
    name: str
    kind: str
    seconds: int
    queue: float
    await_ms: float
    read_bytes_s: float
    read_size_bytes: float
    ranks_waiting: float


@RULES.register("f07_shallow_queue")
class ShallowDeviceQueue:
    """Training waits for a device that is not busy."""

    code = "F07"
    title = "local device far from its limits while data is awaited"
    needs: Needs = "training"

    def judge(self, picture: Picture) -> Answer:
        """Fires when all four signs are there on a node's device."""
        share = picture.data_storage.value
        if not picture.loses_to_storage:
            return Answer("quiet", f"waiting for storage took {share:.1%} of training")
        if not picture.where.fstypes & LOCAL_FSTYPES:
            return Answer("quiet", "the awaited mounts are on no local device")
        limits = picture.thresholds.rules.shallow
        devices = _devices(picture, limits)
        if not devices:
            return no_rows("block")
        shallow = [one for one in devices if _is_shallow(one, limits)]
        if not shallow:
            worst = max(devices, key=lambda one: one.await_ms)
            reason = f"{worst.name} took {worst.await_ms:.1f} ms a read, queue {worst.queue:.1f}"
            return Answer("quiet", reason)
        return Answer("fired", findings=(_finding(picture, shallow, limits),))


def _devices(picture: Picture, limits: ShallowQueue) -> list[_Device]:
    causes = picture.causes
    read = rows_between(picture.tables, picture.watch.spans, "block", _COLUMNS)
    stalled = causes.seconds.group_by(pl.col("node").cast(pl.String), "sec").agg(
        pl.col("storage_s").max().alias("longest"), pl.col("storage_s").sum().alias("waiting")
    )
    stalled = stalled.filter(pl.col("longest") >= _STALLED_S)
    phases = causes.phases.with_columns(pl.col("node").cast(pl.String))
    awaited = with_second(read.rows, phases).join(
        stalled.select("node", "sec", "waiting"), on=["node", "sec"], how="inner"
    )
    rows = leaf_rows(awaited, picture.store, _local_mounts(picture))
    found = (
        rows.drop_nulls("aqu_sz")
        .group_by("node", "device")
        .agg(
            pl.len().alias("seconds"),
            pl.col("aqu_sz").mean().alias("queue"),
            ((pl.col("r_await") * pl.col("r_s")).sum() / pl.col("r_s").sum()).alias("await"),
            (pl.col("rkB_s").mean() * 1024).alias("rate"),
            (pl.col("rkB_s").sum() / pl.col("r_s").sum() * 1024).alias("size"),
            pl.col("r_s").sum().alias("reads"),
            pl.col("waiting").mean(),
        )
        .filter((pl.col("seconds") >= limits.least_rows) & (pl.col("reads") > 0))
        .drop_nulls()
        .sort("node", "device")
    )
    kinds = _kinds(picture)
    return [
        _Device(
            node=row["node"],
            name=row["device"],
            kind=kinds.get((row["node"], row["device"]), _kind(row["device"])),
            seconds=row["seconds"],
            queue=row["queue"],
            await_ms=row["await"],
            read_bytes_s=row["rate"],
            read_size_bytes=row["size"],
            ranks_waiting=row["waiting"],
        )
        for row in found.iter_rows(named=True)
    ]


def _local_mounts(picture: Picture) -> list[tuple[str, str]]:
    """(node, mount) of the awaited mounts that are on a local file system."""
    samples = picture.causes.samples
    hits = samples.filter(
        (pl.col("n_storage") > 0)
        & pl.col("mount").is_not_null()
        & pl.col("fstype").is_in(sorted(LOCAL_FSTYPES))
    )
    pairs = hits.select(pl.col("node").cast(pl.String), "mount").unique().sort("node", "mount")
    return [(node, mount) for node, mount in pairs.iter_rows()]


def _kinds(picture: Picture) -> dict[tuple[str, str], str]:
    """(node, device) -> kind, where meta.json says whether it rotates."""
    found: dict[tuple[str, str], str] = {}
    for name, view in picture.store.nodes.items():
        listed = mapping(sources_of(view).get("block")).get("devices")
        for one in map(mapping, listed if isinstance(listed, list) else ()):
            device = one.get("name")
            if isinstance(device, str) and one.get("rotational") is True:
                found[name, device] = "disk"
    return found


def _kind(device: str) -> str:
    return "nvme" if device.startswith("nvme") else "ssd"


def _is_shallow(one: _Device, limits: ShallowQueue) -> bool:
    return (
        one.queue < limits.queue
        and one.queue >= limits.queue_per_rank * one.ranks_waiting
        and one.await_ms <= limits.fast_await_ms[one.kind]
        and one.read_bytes_s < limits.device_share * limits.read_bytes_per_s[one.kind]
    )


def _finding(picture: Picture, shallow: list[_Device], limits: ShallowQueue) -> Finding:
    share = picture.data_storage.value
    worst = min(shallow, key=lambda one: one.read_bytes_s)
    can = limits.read_bytes_per_s[worst.kind]
    mounts = tuple(mount.mount for mount in picture.where.mounts if mount.fstype in LOCAL_FSTYPES)
    evidence = [
        Evidence(
            f"waiting for storage took {share:.1%} of training GPU time",
            "data_storage_share", share, picture.thresholds.shares.data_storage,
        ),
        Evidence(
            f"{worst.name} on {worst.node} had {worst.queue:.2f} requests in it on the mean of "
            f"{worst.seconds} seconds in which it was awaited",
            "aqu_sz", worst.queue, limits.queue,
        ),
        Evidence(
            f"a read of {worst.read_size_bytes / 1024:.0f} KiB took {worst.await_ms:.2f} ms",
            "r_await_ms", worst.await_ms, limits.fast_await_ms[worst.kind],
        ),
        Evidence(
            f"it read {worst.read_bytes_s / 1e6:.0f} MB/s; an {_KINDS[worst.kind]} of today reads "
            f"{can / 1e6:.0f} MB/s"
            if worst.kind != "disk"
            else f"it read {worst.read_bytes_s / 1e6:.0f} MB/s; a hard disk reads "
            f"{can / 1e6:.0f} MB/s",
            "device_share", worst.read_bytes_s / can, limits.device_share,
        ),
        *shortness(picture),
    ]  # fmt: skip
    return Finding(
        rule="F07",
        severity="warn",
        confidence=_confidence(picture),
        title=f"training waits for {worst.name}, which has hardly anything to do",
        lost_gpu_s=None,  # part of what F01 counts
        where=Place(nodes=tuple(sorted({one.node for one in shallow})), mounts=mounts),
        evidence=tuple(evidence),
        remedy=f"more reads at once and larger ones: {_readers(picture)}, whole samples in one "
        "read, more readahead for files read in order; a faster device changes little",
        commands=(
            *_workers(picture),
            f"blockdev --setra 4096 /dev/{shlex.quote(worst.name)}  # 2 MiB of readahead, as root",
        ),
    )


def _has_room(picture: Picture) -> bool:
    """Whether the job's CPUs can run more workers than it has."""
    now = workers_now(picture)
    return now is None or now < fitting_workers(picture)


def _readers(picture: Picture) -> str:
    if _has_room(picture):
        return "more workers or reading threads"
    return "reading threads in each worker (workers fill the job's CPUs)"


def _workers(picture: Picture) -> tuple[str, ...]:
    if not _has_room(picture):
        return ()
    return (f"DataLoader(..., num_workers={fitting_workers(picture)}, prefetch_factor=4)",)


def _confidence(picture: Picture) -> Confidence:
    """As sure as that storage is the cause: the device's own figures come on top."""
    return picture.storage_confidence
