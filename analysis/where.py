"""Which mounts and files the loaders waited for, which ranks and nodes held the job."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.causes import Causes
from slurm_io.analysis.losses import Losses
from slurm_io.analysis.timeline import Timeline

_FILES = 3


@dataclass(frozen=True)
class Mount:
    """One mount's part of the storage samples."""

    mount: str
    fstype: str | None
    share: float
    wchan: str | None
    files: tuple[str, ...]


@dataclass(frozen=True)
class Holder:
    """One process's part of the job's storage loss (GPU time it held others included)."""

    node: str
    rank: int | None
    label: str
    share: float


@dataclass(frozen=True)
class Where:
    """Largest first. `net_share`: part of the storage samples that were object-store reads.
    `fault_share`: part that were page faults of mapped files.
    """

    mounts: tuple[Mount, ...]
    holders: tuple[Holder, ...]
    net_share: float
    fault_share: float

    @property
    def fstypes(self) -> frozenset[str]:
        """File system types of the mounts."""
        return frozenset(mount.fstype for mount in self.mounts if mount.fstype)


def find_where(causes: Causes, losses: Losses, timeline: Timeline) -> Where:
    """Places of the data waits."""
    waiting = causes.samples.filter(pl.col("phase") == "data_wait")
    storage, net = int(waiting["n_storage"].sum()), int(waiting["n_net"].sum())
    return Where(
        mounts=mounts_of(waiting),
        holders=find_holders(losses, timeline, ("storage", "net")),
        net_share=net / (storage + net) if storage + net else 0.0,
        fault_share=int(waiting["n_fault"].sum()) / storage if storage else 0.0,
    )


def mounts_of(samples: pl.DataFrame) -> tuple[Mount, ...]:
    """Mounts by storage samples; samples whose mount is not known are left out."""
    hits = samples.filter((pl.col("n_storage") > 0) & pl.col("mount").is_not_null())
    total = int(hits["n_storage"].sum())
    files = (
        hits.drop_nulls("path")
        .group_by("mount", "path")
        .agg(pl.col("n_storage").sum())
        .sort("n_storage", "path", descending=[True, False])
        .group_by("mount", maintain_order=True)
        .agg(pl.col("path").head(_FILES).alias("files"))
    )
    by_mount = (
        hits.group_by("mount")
        .agg(
            pl.col("n_storage").sum(),
            pl.col("fstype").drop_nulls().first(),
            pl.col("wchan").drop_nulls().mode().sort().first(),
        )
        .join(files, on="mount", how="left")
        .sort("n_storage", "mount", descending=[True, False])
    )
    return tuple(
        Mount(
            row["mount"],
            row["fstype"],
            row["n_storage"] / total,
            row["wchan"],
            tuple(row["files"] or ()),
        )
        for row in by_mount.iter_rows(named=True)
    )


def find_holders(losses: Losses, timeline: Timeline, causes: tuple[str, ...]) -> tuple[Holder, ...]:
    """Processes by how much of these causes' loss they held."""
    gpu_s = pl.sum_horizontal(f"l_{cause}" for cause in causes) * pl.col("gpus")
    lost = losses.unit_steps.group_by("holder").agg(gpu_s.sum().alias("lost_s"))
    total = float(lost["lost_s"].sum())
    if total <= 0:
        return ()
    by_proc = timeline.by_proc
    lost = lost.sort("lost_s", "holder", descending=[True, False])
    return tuple(
        Holder(by_proc[proc].node, by_proc[proc].rank, by_proc[proc].label, lost_s / total)
        for proc, lost_s in lost.select("holder", "lost_s").rows()
        if lost_s > 0
    )
