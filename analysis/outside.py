"""What an attach without a hook saw: what ranks and workers waited for, not what training lost.

Nobody timed a batch, so nothing says when a wait held training up, and the verdict stays
``not-proven``. What the wait samples do say is said here, with its base: of all samples of ranks,
and of all samples of their workers, the share of each class and the mounts of the storage ones.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from slurm_io.analysis.facts import ranks_of
from slurm_io.analysis.inputs import NodeView, StoreView
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.samples import COUNTS, read_samples

_ROLES = ("rank", "worker")
_MOST_MOUNTS = 4
_DIGITS = 4


def is_attached(store: StoreView) -> bool:
    """Whether `slurm-io attach` made this store."""
    return isinstance(store.extra.get("attached"), dict)


def ranks_told(store: StoreView) -> int:
    """Ranks that only their environment told of: no hook of theirs timed a batch."""
    return sum(len(_told(view)) for view in store.nodes.values())


def outside(picture: Picture) -> dict[str, Any] | None:
    """``outside`` of the report; None where a hook timed batches, or the job was not attached to.

    ``{base, seen: [{role, processes, samples, shares: {class: share}, mounts: [{mount, fstype,
    share}]}]}``; shares are of all samples of that role, classes that never came are left out.
    """
    if not is_attached(picture.store) or picture.timeline.processes:
        return None
    samples = read_samples(picture.tables, 1)
    seen = [_of_role(samples.filter(pl.col("role") == role), role) for role in _ROLES]
    return {
        "base": "wait samples of the role's processes",
        "seen": [one for one in seen if one is not None],
    }


def _of_role(samples: pl.DataFrame, role: str) -> dict[str, Any] | None:
    counts = {name: int(samples[f"n_{name}"].sum()) for name in COUNTS}
    total = sum(counts.values())
    if total == 0:
        return None
    largest = sorted(counts, key=lambda name: -counts[name])
    return {
        "role": role,
        "processes": _most_at_once(samples),
        "samples": total,
        "shares": {name: round(counts[name] / total, _DIGITS) for name in largest if counts[name]},
        "mounts": _mounts(samples, total),
    }


def _mounts(samples: pl.DataFrame, total: int) -> list[dict[str, Any]]:
    """The mounts of storage samples, as far as known."""
    by_mount = (
        samples.filter((pl.col("n_storage") > 0) & pl.col("mount").is_not_null())
        .group_by("mount")
        .agg(pl.col("n_storage").sum(), pl.col("fstype").drop_nulls().first())
        .sort("n_storage", "mount", descending=[True, False])
    )
    return [
        {"mount": mount, "fstype": fstype, "share": round(count / total, _DIGITS)}
        for mount, count, fstype in by_mount.head(_MOST_MOUNTS).iter_rows()
    ]


def _most_at_once(samples: pl.DataFrame) -> int:
    """Processes of this role on all nodes, each rank at the moment when it had most: not all ranks
    are looked at in every pass."""
    at_once = (
        samples.filter(pl.col("mount").is_null())
        .group_by("node", "rank", "mono_ns")
        .agg(pl.col("processes").sum())
        .group_by("node", "rank")
        .agg(pl.col("processes").max())
    )
    return int(at_once["processes"].sum())


def _told(view: NodeView) -> list[dict[str, Any]]:
    return [rank for rank in ranks_of(view) if rank.get("told_by") == "environ"]
