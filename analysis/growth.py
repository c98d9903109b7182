"""Memory that a job holds and cannot give back, over its training.

Anonymous and shared memory of the job's control group; without one the node's shared memory, which
other jobs share. Page cache is neither: the kernel takes it back. A process's resident set counts
pages of mapped files too, so it says who grows, not whether.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis import host_rows
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.losses import Losses
from slurm_io.analysis.timeline import Timeline

_CGROUP = ("path", "mem_anon_bytes", "mem_shmem_bytes")
_NODE = ("shmem_bytes", "mem_total_bytes")
_PROCESS = ("pid", "starttime", "rank", "role", "comm", "rss_bytes")


@dataclass(frozen=True)
class Growth:
    """One node. `what`: whose memory; `parts`: mean bytes held in equal parts of training."""

    node: str
    what: str
    is_ours: bool
    parts: tuple[float, ...]

    @property
    def began(self) -> float:
        """Held when training had begun."""
        return self.parts[0]

    @property
    def grown(self) -> float:
        """Held at the end more than at the beginning."""
        return self.parts[-1] - self.parts[0]

    @property
    def rising_share(self) -> float:
        """Of the parts, those that hold more than the one before."""
        pairs = list(zip(self.parts, self.parts[1:], strict=False))
        return sum(after > before for before, after in pairs) / max(1, len(pairs))


@dataclass(frozen=True)
class Grower:
    """The process whose resident set grew most."""

    node: str
    comm: str
    role: str
    rank: int | None
    grown: float


def find_growth(tables: Tables, timeline: Timeline, parts: int) -> list[Growth]:
    """One entry for each node whose memory was recorded all through training."""
    groups = _held(tables, timeline, "cgroup", _CGROUP).drop_nulls("mem_anon_bytes")
    held = pl.col("mem_anon_bytes") + pl.col("mem_shmem_bytes").fill_null(0)
    ours = groups.group_by("node", _part(parts), "path").agg(held.mean().alias("held"))
    ours = ours.group_by("node", "part").agg(pl.col("held").max())
    nodes = _held(tables, timeline, "node", _NODE).drop_nulls("shmem_bytes")
    theirs = nodes.group_by("node", _part(parts)).agg(pl.col("shmem_bytes").mean().alias("held"))
    told = {
        **_series(theirs, parts, "the node's shared memory", False),
        **_series(ours, parts, "the job's anonymous and shared memory", True),
    }
    return [told[name] for name in sorted(told)]


def _held(tables: Tables, timeline: Timeline, table: str, columns: tuple[str, ...]) -> pl.DataFrame:
    return host_rows.rows_in_training(tables, timeline, table, columns, of_moments=True).rows


def _part(parts: int) -> pl.Expr:
    return (pl.col("at") * parts).floor().clip(0, parts - 1).cast(pl.Int32).alias("part")


def _series(means: pl.DataFrame, parts: int, what: str, is_ours: bool) -> dict[str, Growth]:
    whole = means.sort("node", "part").group_by("node", maintain_order=True).agg("held")
    return {
        node: Growth(node, what, is_ours, tuple(held))
        for node, held in whole.iter_rows()
        if len(held) == parts
    }


def find_grower(tables: Tables, timeline: Timeline) -> Grower | None:
    """Who grew most from the first fifth of training to the last; None when nobody did."""
    rows = _held(tables, timeline, "process", _PROCESS).drop_nulls("rss_bytes")
    rss = pl.col("rss_bytes")
    found = (
        rows.group_by("node", "pid", "starttime")
        .agg(
            pl.col("comm", "role", "rank").drop_nulls().last(),
            rss.filter(pl.col("at") < 0.2).mean().alias("began"),
            rss.filter(pl.col("at") >= 0.8).mean().alias("ended"),
        )
        .drop_nulls(["began", "ended"])
        .with_columns((pl.col("ended") - pl.col("began")).alias("grown"))
        .sort("grown", "pid", descending=[True, False])
    )
    if found.is_empty() or found["grown"][0] <= 0:
        return None
    row = found.row(0, named=True)
    return Grower(
        row["node"], row["comm"] or "?", row["role"] or "other", row["rank"], row["grown"]
    )


def shared_share(tables: Tables, timeline: Timeline) -> tuple[float, float, str] | None:
    """(share of the node's memory, bytes, node) of the shared memory held as training began; of
    the node where that is most."""
    rows = _held(tables, timeline, "node", _NODE)
    rows = rows.drop_nulls(["shmem_bytes", "mem_total_bytes"]).filter(pl.col("at") < 0.2)
    found = rows.group_by("node").agg(
        pl.col("shmem_bytes").mean(), pl.col("mem_total_bytes").max().alias("total")
    )
    shares = found.filter(pl.col("total") > 0).select(
        (pl.col("shmem_bytes") / pl.col("total")).alias("share"), "shmem_bytes", "node"
    )
    return shares.sort("share", "node").row(-1) if not shares.is_empty() else None


def step_slowdown(losses: Losses) -> float | None:
    """Median step of the last third over that of the first, in the longest unit; None when short.

    Steps stand without checkpoints, evaluations, pass starts, and waits for storage.
    """
    if losses.unit_steps.is_empty():
        return None
    counts = losses.unit_steps.group_by("unit").len().sort("len", "unit", descending=[True, False])
    steps = losses.unit_steps.filter(
        (pl.col("unit") == counts["unit"][0]) & ~pl.col("broken")
    ).sort("step")
    third = steps.height // 3
    if third < 10:
        return None
    own = steps.select((pl.col("net_s") - pl.col("l_storage") - pl.col("l_net")).clip(0))
    first, last = own["net_s"].head(third).median(), own["net_s"].tail(third).median()
    if not isinstance(first, (int, float)) or not isinstance(last, (int, float)) or first <= 0:
        return None
    return float(last) / float(first)
