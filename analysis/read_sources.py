"""What came from storage: which counter says so for which file system, and within which bounds.

``read_bytes`` of /proc/PID/io is filled by the file system, not by the kernel's read path:

- block file systems and BeeGFS count what a process fetched, reads through mmap included;
- NFS, Lustre and Ceph do so in most versions (buffered NFS reads not in Linux 5.18 to 6.3, Lustre
  not before 2.11): then the client's bytes on the wire are the upper bound, as other jobs of the
  node count there too;
- ZFS counts what was asked for, its own cache's hits included: an upper bound;
- FUSE counts nothing, GPFS, Weka and SMB are not known to: JuiceFS's daemon tells the bytes that it
  was asked for past the page cache (it may hold them itself), the others nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.facts import sources_of
from slurm_io.analysis.inputs import NodeView, StoreView

COUNTED = frozenset(
    {
        "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "jfs", "vfat", "exfat",
        "squashfs", "erofs", "iso9660", "overlay", "beegfs", "beegfs_nodev",
    }
)  # fmt: skip
COUNTS_CACHE_HITS = frozenset({"zfs"})
BY_VERSION = {"nfs": "nfs", "nfs4": "nfs", "lustre": "lustre", "ceph": "ceph"}
BLIND = {"fuse.juicefs": "juicefs"}
IN_MEMORY = frozenset({"tmpfs", "ramfs", "hugetlbfs", "devtmpfs"})
WIRE_SOURCES = ("mountstats", "osc+mdc", "ceph debugfs", "juicefs .stats")
_LEAST_SHARE = 0.05  # of the storage samples: less is a library that was loaded late
_LEAST_SAMPLES = 5


@dataclass(frozen=True)
class ReadMounts:
    """The mounts one node's readers waited for, as (mount, fstype); `seen` False: nobody waited for
    any, and these are all that the node has."""

    mounts: tuple[tuple[str, str], ...]
    seen: bool


@dataclass(frozen=True)
class Bounds:
    """Bytes that came from storage, None = unbounded; `why` says why that is."""

    low: float | None
    high: float | None
    why: str = ""


def read_mounts(samples: pl.DataFrame, store: StoreView) -> dict[str, ReadMounts]:
    """By node. `samples`: rows of the waits table with node, mount, fstype and n_storage."""
    hits = samples.filter(pl.col("n_storage") > 0).with_columns(pl.col("node").cast(pl.String))
    total = pl.col("n_storage").sum().over("node")
    by_mount = (
        hits.with_columns(total.alias("total"))
        .drop_nulls(["mount", "fstype"])
        .group_by("node", "mount")
        .agg(pl.first("fstype", "total"), pl.col("n_storage").sum())
        .filter(
            (pl.col("n_storage") >= _LEAST_SHARE * pl.col("total"))
            & (pl.col("total") >= _LEAST_SAMPLES)
        )
        .sort("node", "n_storage", "mount", descending=[False, True, False])
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for node, mount, fstype in by_mount.select("node", "mount", "fstype").iter_rows():
        found.setdefault(node, []).append((mount, fstype))
    return {
        name: ReadMounts(tuple(found[name]), True)
        if name in found
        else ReadMounts(_all_mounts(view), False)
        for name, view in store.nodes.items()
    }


def bounds_of(read: float | None, where: ReadMounts, wire: Mapping[str, float | None]) -> Bounds:
    """Of one node and slice. `read`: read_bytes of its readers; `wire`: bytes by mount."""
    if read is None:
        return Bounds(None, None, "/proc/PID/io of the readers could not be read")
    if not where.mounts:
        return Bounds(read, None, "which file systems are read is not known")
    kinds = {fstype for _, fstype in where.mounts}
    low = 0.0 if kinds & COUNTS_CACHE_HITS else read
    own = kinds - IN_MEMORY
    beside = 0.0
    for mount, fstype in where.mounts:
        if fstype in COUNTED | COUNTS_CACHE_HITS | IN_MEMORY:
            continue
        moved = wire.get(mount) if fstype in BY_VERSION or fstype in BLIND else None
        if moved is None:
            return Bounds(low, None, _blindness(mount, fstype))
        beside += moved
    # Where all mounts are counted twice, on the wire and by the process, the larger one holds.
    high = max(read, beside) if own <= set(BY_VERSION) else read + beside
    return Bounds(low, high)


def wire_bytes(
    rows: pl.DataFrame, where: ReadMounts, view: NodeView
) -> dict[str, dict[int, float] | None]:
    """Mount -> bytes by slice (a slice without rows moved none), None where nobody counts them.

    `rows`: this node's, of :func:`.read_counts.client_rows` with slice and weight.
    """
    found: dict[str, dict[int, float] | None] = {}
    for mount, fstype in where.mounts:
        collector = BY_VERSION.get(fstype) or BLIND.get(fstype)
        if collector is not None:
            found[mount] = _of_mount(rows, mount, fstype, collector, view)
    return found


def _of_mount(
    rows: pl.DataFrame, mount: str, fstype: str, collector: str, view: NodeView
) -> dict[int, float] | None:
    mine = rows.filter((pl.col("fstype") == fstype) & pl.col("source").is_in(WIRE_SOURCES))
    # Mounts of one superblock share their counters under the first one's name.
    exact = mine.filter(pl.col("mount") == mount)
    mine = mine if exact.is_empty() else exact
    if mine.is_empty():
        is_on = sources_of(view).get(collector, {}).get("state") == "on"
        return {} if is_on else None
    if mine["bytes"].null_count() == mine.height:
        return None
    summed = mine.group_by("slice").agg((pl.col("bytes") * pl.col("weight")).sum().alias("bytes"))
    return {number: float(moved) for number, moved in summed.select("slice", "bytes").iter_rows()}


def _blindness(mount: str, fstype: str) -> str:
    if fstype.startswith("fuse"):
        return f"{mount} is {fstype}: the kernel does not count what a FUSE daemon hands over"
    if fstype in BY_VERSION:
        return f"{mount} is {fstype}: its client's bytes on the wire could not be read"
    return f"{mount} is {fstype}: nobody counts what came from its servers"


def _all_mounts(view: NodeView) -> tuple[tuple[str, str], ...]:
    told = view.meta.get("mounts")
    mounts = [each for each in told if isinstance(each, dict)] if isinstance(told, list) else []
    pairs = ((each.get("mount"), each.get("fstype")) for each in mounts)
    return tuple(
        (mount, fstype)
        for mount, fstype in pairs
        if isinstance(mount, str) and isinstance(fstype, str)
    )
