"""F03: one node writes the whole checkpoint while the others wait.

What it flags
-------------
A job on several nodes stands still for checkpoints, and at least 80 % of what they write comes from
one node.

Why it matters
--------------
One node writes as fast as one network card and one client allow. The same bytes from all nodes take
as many times less as there are nodes, until the file system is the limit.

Evidence
--------
Who saved and how much (hook: path, duration and size of each save), and what the processes of each
node wrote in those seconds (/proc/PID/io): two independent counters. The rate that was reached is
given beside it.

What to do
----------
Save sharded: every rank its own part (``torch.distributed.checkpoint``, Megatron's ``torch_dist``
with fully parallel save, DeepSpeed ZeRO). Asynchronous saving hides the rest.

Known false alarms
------------------
Data-parallel training saves from rank 0 by design; where that takes less than 1 % of training the
rule is quiet. Hybrid sharding writes from one replica group only, which may be one node. When all
nodes write and it is slow, it is the file system and not the way of saving: then F04 speaks alone.

Thresholds
----------
``thresholds.one_node_share`` (80 % of the bytes of all nodes, at least 100 MB) and
``thresholds.checkpoint_share`` (1 % of training GPU time in blocking saves).
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.host_rows import rows_between
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    iso,
    shortness,
    sure,
)
from slurm_io.analysis.windows import blocking_saves


@dataclass(frozen=True)
class _Bytes:
    """What nodes wrote in saves, as one source counts it."""

    by_node: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.by_node.values())

    @property
    def busiest(self) -> str:
        return max(sorted(self.by_node), key=lambda node: self.by_node[node])

    @property
    def share(self) -> float:
        return self.by_node[self.busiest] / self.total if self.total else 0.0


@RULES.register("f03_single_node_checkpoint")
class SingleNodeCheckpoint:
    """One node writes the whole checkpoint."""

    code = "F03"
    title = "checkpoint written by one node only"
    needs: Needs = "training"

    def judge(self, picture: Picture) -> Answer:
        """Fires where saves cost and one node's bytes are nearly all."""
        if len(_nodes(picture)) < 2:
            return Answer("quiet", "the job trained on one node")
        share, least = picture.losses.share("ckpt"), picture.thresholds.shares.checkpoint
        saves = _by_stacks(picture) if picture.is_hookless else _saves(picture)
        if saves.is_empty() or share < least or not picture.is_sure("ckpt", least):
            return Answer("quiet", f"blocking saves took {share:.2%} of training")
        told, written = _told(saves), _written(picture, saves)
        if told is None and written is None:
            return Answer("not enough evidence", "neither save nor process told bytes written")
        limits = picture.thresholds.rules.one_node
        known = [one for one in (told, written) if one is not None]
        spread = [one for one in known if one.share < limits.bytes_share]
        if spread:
            text = f"the node that wrote most wrote {spread[0].share:.0%} of it"
            return Answer("quiet", text)
        if max(one.total for one in known) < limits.least_bytes:
            return Answer("quiet", "checkpoints are small")
        return Answer("fired", findings=(_finding(picture, saves, told, written, share),))


def _nodes(picture: Picture) -> set[str]:
    """Nodes that trained."""
    if picture.by_stacks is not None and picture.is_hookless:
        return {rank.node for rank in picture.by_stacks.looks.ranks}
    return {process.node for process in picture.timeline.processes}


def _by_stacks(picture: Picture) -> pl.DataFrame:
    """The seconds in which stacks show a rank in a save that blocks: nobody timed it, or knows its
    file or size."""
    rows = picture.tables.frame("stacks", ("ts_ns", "interval_ns", "role", "state", "sub"))
    saving = rows.filter(
        (pl.col("role") == "rank")
        & (pl.col("state") == "ckpt")
        & ~pl.col("sub").is_in(["async", "restore"]).fill_null(False)
    ).drop_nulls(["ts_ns", "interval_ns"])
    return saving.select(
        pl.lit(None, pl.Int32).alias("proc"),
        pl.col("node").cast(pl.String).alias("on"),
        pl.lit(None, pl.Int64).alias("bytes"),
        pl.lit(None, pl.String).alias("path"),
        pl.lit(None, pl.Int64).alias("step"),
        (pl.col("ts_ns") - pl.col("interval_ns")).alias("from"),
        pl.col("ts_ns").alias("to"),
    )


def _saves(picture: Picture) -> pl.DataFrame:
    """Blocking saves inside training, with their node and UTC span."""
    nodes = pl.DataFrame(
        [(one.proc, str(one.node), one.opens, one.closes) for one in picture.timeline.processes],
        schema={"proc": pl.Int32, "on": pl.String, "opens": pl.Int64, "closes": pl.Int64},
        orient="row",
    )
    saves = blocking_saves(picture.timeline.events).join(nodes, on="proc")
    inside = saves.filter((pl.col("end") > pl.col("opens")) & (pl.col("start") < pl.col("closes")))
    return inside.drop_nulls("ts_ns").select(
        "proc",
        "on",
        "bytes",
        "path",
        "step",
        pl.col("ts_ns").alias("from"),
        (pl.col("ts_ns") + pl.col("end") - pl.col("start")).alias("to"),
    )


def _told(saves: pl.DataFrame) -> _Bytes | None:
    """By the hook; None where a save did not tell its size (a folder of shards)."""
    if saves["bytes"].null_count():
        return None
    sums = saves.group_by("on").agg(pl.col("bytes").sum())
    return _Bytes(dict(sums.iter_rows())) if sums["bytes"].sum() > 0 else None


def _written(picture: Picture, saves: pl.DataFrame) -> _Bytes | None:
    """By /proc/PID/io of all the job's processes, in intervals that touch a save of any node."""
    columns = ("ts_ns", "wchar_bytes", "write_bytes")
    read = rows_between(picture.tables, picture.watch.spans, "process", columns)
    moved = pl.max_horizontal("wchar_bytes", "write_bytes").alias("moved")
    rows = read.rows.with_columns(moved).drop_nulls(["moved", "ts_ns"]).sort("ts_ns")
    spans = saves.select("from", "to").sort("from").with_columns(pl.col("to").cum_max())
    near = rows.join_asof(
        spans, left_on="ts_ns", right_on="from", strategy="backward", check_sortedness=False
    )
    hit = near.filter(pl.col("ts_ns") - pl.col("interval_ns") <= pl.col("to"))
    if hit.is_empty() or hit["moved"].sum() == 0:
        return None
    sums = hit.group_by("node").agg(pl.col("moved").sum() * read.every)
    return _Bytes(dict(sums.iter_rows()))


def _finding(
    picture: Picture,
    saves: pl.DataFrame,
    told: _Bytes | None,
    written: _Bytes | None,
    share: float,
) -> Finding:
    limits = picture.thresholds.rules.one_node
    main = told or written
    assert main is not None
    node, count = main.busiest, len(_nodes(picture))
    ranks = {one.proc: one.rank for one in picture.timeline.processes}
    mine = saves.filter(pl.col("on") == node)
    writers = sorted({rank for rank in map(ranks.get, mine["proc"]) if rank is not None})
    length_s = float((mine["to"] - mine["from"]).sum()) / 1e9
    evidence = [
        Evidence(
            f"blocking saves took {share:.1%} of training GPU time",
            "checkpoint_share", share, picture.thresholds.shares.checkpoint,
            iso(_first(saves["from"].min())), iso(_first(saves["to"].max())),
        ),
    ]  # fmt: skip
    for one, who in ((told, "by the size of the files"), (written, "by what its processes wrote")):
        if one is not None:
            text = f"{node} wrote {one.share:.0%} of {one.total / 1e9:.1f} GB, {who}"
            evidence.append(Evidence(text, "one_node_share", one.share, limits.bytes_share))
    if told is not None and length_s > 0:
        rate = told.by_node[node] / length_s
        text = f"{rate / 1e6:.0f} MB/s from this node, {count - 1} other nodes waited"
        evidence.append(Evidence(text, "checkpoint_bytes_per_s", rate))
    paths = mine["path"].drop_nulls().unique().sort().to_list()
    return Finding(
        rule="F03",
        severity="warn",
        confidence=sure(len([one for one in (told, written) if one is not None])),
        title=f"{node} alone writes the checkpoints of {count} nodes",
        lost_gpu_s=None,  # part of what F04 counts
        where=Place(nodes=(node,), ranks=tuple(writers[:8]), files=tuple(paths[:5])),
        evidence=(*evidence, *shortness(picture)),
        remedy="save sharded, every rank its own part; asynchronously where the framework can",
        commands=(
            "torch.distributed.checkpoint.save(state, checkpoint_id=PATH)  # on every rank",
            "--ckpt-format torch_dist --ckpt-fully-parallel-save  # Megatron-LM",
            "FSDP.set_state_dict_type(model, StateDictType.SHARDED_STATE_DICT)",
        ),
    )


def _first(value: object) -> int | None:
    return value if isinstance(value, int) else None
