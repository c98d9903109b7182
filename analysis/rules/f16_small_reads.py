"""F16: many small reads, or more metadata than data.

What it flags
-------------
Training waits for storage, and what it waits for are small pieces: a read moves less than 64 KiB on
the mean, pages of mapped files come one fault at a time, or the file system's client spends most of
its time on opens, stats and lookups.

Why it matters
--------------
Each request costs a round trip whatever its size. A file system that streams gigabytes a second
gives a few megabytes a second in single small files, and a faster one hardly more.

Evidence
--------
Read calls and major faults of the loader's processes and the bytes they moved, in the seconds in
which storage was awaited; the client's own operations by class on the mounts that were awaited,
weighted by the time each took. The loss is F01's.

What to do
----------
Many small files: pack the samples into shards of 100 MB and more (tar, WebDataset, MosaicML
Streaming, Parquet). The same few files again and again: read a few megabytes at a time. Mapped
files: larger pieces (read, ``madvise``). Else copy to node-local NVMe; small files into the
metadata target (Lustre DoM).

Known false alarms
------------------
Read calls on pipes count too and are small: where the client or the device says that what it was
asked for was large, the calls say nothing. FUSE tells no sizes: there a loader that reads one large
file a batch can come near the limit.
Object stores are not judged, for sockets hand over small pieces of large requests. Small reads that
nobody waits for cost nothing. Rare spikes (F02) are slow whatever a read's size. Readahead makes
large requests of small calls in order: then there is no wait, and no finding.

Thresholds
----------
``thresholds.small_read_bytes`` (64 KiB) over at least 100 calls; half of the storage samples for
faults, half of the client's time for metadata; and ``thresholds.data_share`` (3 %) of training GPU
time lost to storage.
"""

from __future__ import annotations

import shlex

import polars as pl

from slurm_io.analysis.host_rows import rows_between
from slurm_io.analysis.latency import ReadLatency, read_latency
from slurm_io.analysis.picture import Confidence, Picture
from slurm_io.analysis.request_sizes import mean_request_bytes
from slurm_io.analysis.rule_limits import SmallReads
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    shortness,
    sure,
)
from slurm_io.analysis.witnesses import LOCAL_FSTYPES

_CLIENT = ("mount", "op_class", "ops", "exe_ms", "rtt_ms")
_NETWORK_SHARE = 0.5  # of the storage samples that were sockets: then calls say nothing of files
_LEAST_OPS = 100
_MOUNT_SHARE = 0.10  # of the storage samples
_LEAST_HITS, _AGAIN = 20, 5  # seconds with storage samples, and so many for each file among them


@RULES.register("f16_small_reads")
class SmallReadsOrMetadata:
    """Training waits for many small reads, or for metadata."""

    code = "F16"
    title = "small random reads, or metadata before data"
    needs: Needs = "training"

    def judge(self, picture: Picture) -> Answer:
        """Fires only where storage is awaited."""
        share = picture.data_storage.value
        if not picture.loses_to_storage:
            return Answer("quiet", f"waiting for storage took {share:.1%} of training")
        if picture.where.net_share >= _NETWORK_SHARE:
            return Answer("quiet", "most storage waits were on the network, not on files")
        steps, variance = picture.variance, picture.thresholds.variance
        if steps is not None and steps.varies(variance) and steps.is_aligned(variance):
            return Answer("quiet", f"the wait lies in {steps.slow_steps} slow steps, see F02")
        limits = picture.thresholds.rules.small
        latency = read_latency(picture.tables, picture.causes)
        meta = _metadata(picture)
        reads = _reads(picture, latency, limits)
        if reads is None and meta is None and (latency is None or latency.calls is None):
            return Answer("not enough evidence", "neither read calls nor a client was recorded")
        heavy = meta if meta is not None and (meta.value or 0.0) >= limits.meta_share else None
        large = _large_requests(picture, limits) if reads is not None else None
        if large is not None:
            reads = None
        if reads is None and heavy is None:
            return Answer("quiet", large or _why_quiet(latency))
        return Answer("fired", findings=(_finding(picture, reads, heavy),))


def _awaited_mounts(picture: Picture) -> list[str]:
    return [mount.mount for mount in picture.where.mounts if mount.share >= _MOUNT_SHARE]


def _why_quiet(latency: ReadLatency | None) -> str:
    if latency is None or not latency.calls or latency.bytes is None:
        return "the client spent its time on data, not on metadata"
    return f"a read moved {latency.bytes / latency.calls / 1024:.0f} KiB on the mean"


def _reads(picture: Picture, latency: ReadLatency | None, limits: SmallReads) -> Evidence | None:
    """Mean size of what one call or fault moved, when it is small."""
    if latency is None or latency.calls is None or latency.bytes is None:
        return None
    if latency.calls < limits.least_calls:
        return None
    size = latency.bytes / latency.calls
    if size >= limits.read_bytes:
        return None
    each_ms = latency.storage_s / latency.calls * 1000
    share = picture.where.fault_share
    if share >= limits.fault_share:
        # How much a fault brought in is not counted everywhere (FUSE); that it was one, is.
        text = (
            f"{share:.0%} of the storage samples were page faults of mapped files; each of "
            f"{latency.calls} faults and read calls took {each_ms:.1f} ms"
        )
        return Evidence(text, "fault_share", share, limits.fault_share)
    text = (
        f"{latency.calls} read calls moved {size / 1024:.1f} KiB each while storage was awaited, "
        f"and took {each_ms:.1f} ms each"
    )
    return Evidence(text, "bytes_per_read", size, limits.read_bytes)


def _large_requests(picture: Picture, limits: SmallReads) -> str | None:
    """Why small calls are no small reads: what reached the client or device was large. Not for
    page faults, which read ahead around themselves."""
    if picture.where.fault_share >= limits.fault_share:
        return None
    # A stray sample of the node's own disk would bring in what everybody reads from that.
    samples = picture.causes.samples.filter(
        (pl.col("n_storage") > 0) & pl.col("mount").is_in(_awaited_mounts(picture))
    )
    places = samples.select(pl.col("node").cast(pl.String), "mount", "fstype").unique()
    awaited = [(node, mount) for node, mount, _ in places.iter_rows()]
    local = [(node, mount) for node, mount, fstype in places.iter_rows() if fstype in LOCAL_FSTYPES]
    size = mean_request_bytes(picture.tables, picture.watch.spans, awaited, local)
    if size is None or size < limits.read_bytes:
        return None
    return f"the file system was asked for {size / 1024:.0f} KiB at a time on the mean"


def _metadata(picture: Picture) -> Evidence | None:
    """The client's time in metadata, of that in metadata and reads; None when not recorded."""
    rows = rows_between(picture.tables, picture.watch.spans, "fsclient", _CLIENT)
    awaited = _awaited_mounts(picture)
    took = pl.coalesce("exe_ms", "rtt_ms") * pl.col("ops")
    mine = rows.rows.filter(
        pl.col("mount").is_in([*awaited, "*"]) & pl.col("op_class").is_in(["read", "meta"])
    )
    sums = {
        row["op_class"]: row
        for row in mine.group_by("op_class")
        .agg(took.sum().alias("ms"), took.count().alias("told"), pl.col("ops").sum())
        .iter_rows(named=True)
    }
    meta, read = sums.get("meta"), sums.get("read")
    if meta is None or read is None or not meta["told"] or not read["told"]:
        return None
    total = meta["ms"] + read["ms"]
    if total <= 0 or meta["ops"] < _LEAST_OPS or meta["ops"] < read["ops"]:
        return None
    share = meta["ms"] / total
    text = (
        f"{share:.0%} of the client's time in {', '.join(awaited) or 'its mounts'} went into "
        f"metadata, {meta['ops'] / max(1, read['ops']):.1f} operations for each read"
    )
    limit = picture.thresholds.rules.small.meta_share
    return Evidence(text, "meta_time_share", share, limit)


def _finding(picture: Picture, reads: Evidence | None, meta: Evidence | None) -> Finding:
    where = picture.where
    share = picture.data_storage.value
    mounts = tuple(_awaited_mounts(picture))
    files = tuple(path for mount in where.mounts for path in mount.files)[:5]
    evidence = [
        *(one for one in (reads, meta) if one is not None),
        Evidence(
            f"waiting for storage took {share:.1%} of training GPU time",
            "data_storage_share", share, picture.thresholds.shares.data_storage,
        ),
        *shortness(picture),
    ]  # fmt: skip
    faults = where.fault_share >= picture.thresholds.rules.small.fault_share
    large = reads is not None and _comes_back(picture)
    what = "metadata" if reads is None else "page faults of files" if faults else "small reads"
    return Finding(
        rule="F16",
        severity="warn",
        confidence=_confidence(picture, (reads is not None) + (meta is not None)),
        title=f"training waits for {what} from {', '.join(mounts) or 'storage'}",
        lost_gpu_s=None,  # part of what F01 counts
        where=Place(mounts=mounts, files=files),
        evidence=tuple(evidence),
        remedy=_remedy(faults, large),
        commands=_commands(picture, mounts, faults, large),
    )


def _confidence(picture: Picture, signals: int) -> Confidence:
    """Never surer than that storage is the cause at all."""
    order: tuple[Confidence, ...] = ("not-proven", "likely", "proven")
    return min(sure(signals), picture.storage_confidence, key=order.index)


def _comes_back(picture: Picture) -> bool:
    """Whether the same few files are waited for again and again: large ones, read in pieces."""
    hits = picture.causes.samples.filter((pl.col("n_storage") > 0) & pl.col("path").is_not_null())
    return hits.height >= _LEAST_HITS and hits.height >= _AGAIN * hits["path"].n_unique()


def _remedy(faults: bool, large: bool) -> str:
    packed = "pack the samples into shards of 100 MB and more and read them in order"
    if faults:
        return (
            "read larger pieces instead of faulting pages in (read() or preadv of whole samples, "
            f"or madvise WILLNEED ahead of use), or copy the files to node-local NVMe; {packed}"
        )
    if large:
        return (
            "read larger pieces: the same few files are read again and again, a little at a time "
            "(a larger buffer, whole samples in one call), or copy them to node-local NVMe"
        )
    return f"{packed}; where that is not possible, copy the dataset to node-local NVMe"


def _commands(
    picture: Picture, mounts: tuple[str, ...], faults: bool, large: bool
) -> tuple[str, ...]:
    types = {mount.mount: mount.fstype for mount in picture.where.mounts}
    found = [
        f"lfs setstripe -E 1M -L mdt -E -1 -c 1 {shlex.quote(mount)}/SMALL_FILES"
        for mount in mounts
        if types.get(mount) == "lustre" and not large
    ]
    if faults:
        found.append("array._mmap.madvise(mmap.MADV_WILLNEED, start, length)  # before it is used")
    elif large:
        found.append('open(path, "rb", buffering=4 * 2**20)')
    else:
        found.append('tar cf "$TMPDIR/shard-0000.tar" FILES...  # read it with WebDataset')
    return tuple(found)
