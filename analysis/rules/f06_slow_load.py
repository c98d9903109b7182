"""F06: loading the model or checkpoint at the start takes long, and storage is why.

What it flags
-------------
Before training the ranks load files for more than 10 s, at less than half of what one reader should
get, and were in storage waits while they did.

Why it matters
--------------
All GPUs of the job wait for it, at every start and every restart. With hundreds of ranks that read
the same file from one server it grows from seconds to many minutes.

Evidence
--------
The hook times each load on the training thread and its size; samples taken in loads say whether the
process was in storage, on the CPU (unpickling), or elsewhere; the bytes that came from the storage
layer against those asked for say how much the page cache gave.

What to do
----------
Keep the files on node-local NVMe or load on one rank of a node and hand on; safetensors and sharded
checkpoints are read in parallel and without unpickling; map instead of read (``mmap=True``).

Known false alarms
------------------
Unpickling and moving to the GPU are CPU work: where samples show no storage the rule is quiet.
Compiling, graph capture and a cold container image are no loads and not counted. Loads in a thread
beside training keep nobody waiting.

Thresholds
----------
``thresholds.load_s`` (10 s of the slowest rank); half of 1 GB/s; 30 % of at least 20 samples in
storage.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.host_rows import training_spans
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rule_limits import Loading
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    LostBase,
    Needs,
    Place,
    sure,
)
from slurm_io.analysis.samples import COUNTS
from slurm_io.analysis.where import Mount, mounts_of

_EVENTS = ("ts_ns", "mono_ns", "end_mono_ns", "pid", "rank", "kind", "blocking", "bytes", "path")
_WAITS = ("mono_ns", "rank", "role", "phase", "mount", "fstype", "path", "wchan", *(
    f"n_{name}" for name in COUNTS
))  # fmt: skip
_PROCESS = ("mono_ns", "interval_ns", "pid", "rchar_bytes", "read_bytes")


@dataclass(frozen=True)
class _Loads:
    """Blocking loads before training. `slowest_s`: of the rank that loaded longest, `bytes` its
    own; `total_s` over all ranks; `seen`: samples taken in loads, `storage` of them in storage.
    """

    ranks: int
    slowest_s: float
    bytes: int | None
    node: str
    rank: int | None
    total_s: float
    paths: tuple[str, ...]
    seen: int
    storage: int
    mounts: tuple[Mount, ...]
    from_storage_share: float | None


@RULES.register("f06_slow_load")
class SlowLoad:
    """Loading at the start takes long because of storage."""

    code = "F06"
    title = "slow loading of model or checkpoint"
    needs: Needs = "nothing"

    def judge(self, picture: Picture) -> Answer:
        """Fires on loads that were long, slow, and in storage."""
        limits = picture.thresholds.rules.loading
        loads = _find_loads(picture)
        if loads is None:
            if not picture.timeline.processes:
                return Answer("not enough evidence", "no training batches were recorded (hook)")
            return Answer("quiet", "nothing was loaded before training")
        took = f"the slowest rank loaded for {loads.slowest_s:.1f} s"
        if loads.slowest_s < limits.seconds:
            return Answer("quiet", took)
        if loads.seen < limits.least_samples:
            return Answer("not enough evidence", f"{took}; table waits has no rows of it")
        if loads.storage < limits.storage_share * loads.seen:
            return Answer("quiet", f"{took}, {loads.storage / loads.seen:.0%} of it in storage")
        rate = _rate(loads)
        if rate is not None and rate >= limits.rate_share * limits.expected_bytes_per_s:
            return Answer("quiet", f"{took}, at {rate / 1e6:.0f} MB/s")
        return Answer("fired", findings=(_finding(picture, loads, rate, limits),))


def _rate(loads: _Loads) -> float | None:
    return loads.bytes / loads.slowest_s if loads.bytes else None


def _find_loads(picture: Picture) -> _Loads | None:
    raw = picture.tables.frame("events", _EVENTS).with_columns(pl.col("node").cast(pl.String))
    loads = raw.filter((pl.col("kind") == "load") & pl.col("blocking").fill_null(False))
    loads = loads.drop_nulls(["mono_ns", "end_mono_ns", "pid"])
    opens = training_spans(picture.timeline, warm=False).select("node", "opens")
    loads = loads.join(opens, on="node", how="left").filter(
        pl.col("opens").is_null() | (pl.col("mono_ns") < pl.col("opens"))
    )
    if loads.is_empty():
        return None
    length = (pl.col("end_mono_ns") - pl.col("mono_ns")).clip(0) / 1e9
    by_rank = (
        loads.group_by("node", "pid")
        .agg(
            length.sum().alias("length_s"),
            pl.col("bytes").sum().alias("moved"),
            pl.col("bytes").null_count().alias("unsized"),
            pl.col("rank").drop_nulls().first(),
        )
        .sort("length_s", "pid", descending=[True, False])
    )
    slowest = by_rank.row(0, named=True)
    spans = loads.group_by("node", "pid").agg(
        pl.col("mono_ns").min().alias("from"), pl.col("end_mono_ns").max().alias("to")
    )
    samples = _samples(picture, spans)
    paths = loads.sort(length, "path", descending=[True, False])["path"].drop_nulls()
    return _Loads(
        ranks=by_rank.height,
        slowest_s=slowest["length_s"],
        bytes=None if slowest["unsized"] else slowest["moved"],
        node=slowest["node"],
        rank=slowest["rank"],
        total_s=float(by_rank["length_s"].sum()),
        paths=tuple(paths.unique(maintain_order=True).head(5).to_list()),
        seen=int(samples.select(pl.sum_horizontal(f"n_{name}" for name in COUNTS)).sum().item()),
        storage=int(samples.select(pl.col("n_storage", "n_net").sum()).sum_horizontal().sum()),
        mounts=mounts_of(samples),
        from_storage_share=_from_storage(picture, spans),
    )


def _samples(picture: Picture, spans: pl.DataFrame) -> pl.DataFrame:
    """Samples of ranks in the phase `load`, before training."""
    rows = picture.tables.frame("waits", _WAITS, picture.causes.every)
    rows = rows.filter((pl.col("phase") == "load") & (pl.col("role") == "rank"))
    rows = rows.with_columns(
        pl.col("node").cast(pl.String),
        pl.col(*(f"n_{name}" for name in COUNTS)).fill_null(0).clip(0),
    )
    ends = spans.group_by("node").agg(pl.col("to").max())
    return rows.join(ends, on="node").filter(pl.col("mono_ns") <= pl.col("to") + 1_000_000_000)


def _from_storage(picture: Picture, spans: pl.DataFrame) -> float | None:
    """Bytes from the storage layer over bytes asked for, of the loading processes."""
    rows = picture.tables.frame("process", _PROCESS, picture.causes.every)
    rows = rows.with_columns(pl.col("node").cast(pl.String)).join(spans, on=["node", "pid"])
    mine = rows.filter(
        (pl.col("mono_ns") >= pl.col("from"))
        & (pl.col("mono_ns") - pl.col("interval_ns") <= pl.col("to"))
    ).drop_nulls(["rchar_bytes", "read_bytes"])
    asked = int(mine["rchar_bytes"].sum())
    return min(1.0, int(mine["read_bytes"].sum()) / asked) if asked > 0 else None


def _finding(picture: Picture, loads: _Loads, rate: float | None, limits: Loading) -> Finding:
    share = loads.storage / loads.seen
    evidence = [
        Evidence(
            f"rank {'?' if loads.rank is None else loads.rank} on {loads.node} loaded for "
            f"{loads.slowest_s:.1f} s before training, {loads.ranks} ranks together for "
            f"{loads.total_s:.0f} s",
            "load_s", loads.slowest_s, limits.seconds,
        ),
        Evidence(
            f"{share:.0%} of {loads.seen} samples taken in loads were in storage",
            "load_storage_samples", share, limits.storage_share,
        ),
    ]  # fmt: skip
    if rate is not None and loads.bytes is not None:
        text = f"{loads.bytes / 1e9:.2f} GB at {rate / 1e6:.0f} MB/s"
        limit = limits.rate_share * limits.expected_bytes_per_s
        evidence.append(Evidence(text, "load_bytes_per_s", rate, limit))
    if loads.from_storage_share is not None:
        text = f"{loads.from_storage_share:.0%} of the bytes came from the storage layer"
        evidence.append(Evidence(text, "from_storage_share", loads.from_storage_share))
    mounts = tuple(mount.mount for mount in loads.mounts if mount.share >= 0.10)
    gpus = sum(picture.gpus.of_proc.values())
    return Finding(
        rule="F06",
        severity="warn",
        confidence=sure(1 + (rate is not None)),
        title=f"loading from {', '.join(mounts) or 'storage'} delays the start",
        # GPU time before training, which the base of the other shares does not hold.
        lost_gpu_s=loads.slowest_s * share * gpus if gpus else None,
        lost_base=LostBase(loads.slowest_s * gpus, gpus, "GPU-seconds of loading before training"),
        where=Place(
            nodes=(loads.node,),
            ranks=(loads.rank,) if loads.rank is not None else (),
            mounts=mounts,
            files=loads.paths,
        ),
        evidence=tuple(evidence),
        remedy="keep what is loaded on node-local NVMe, load it on one rank of each node and hand "
        "it on, or use a format that is read in parallel (safetensors, sharded checkpoints)",
        commands=(
            'srun --ntasks-per-node=1 cp MODEL_FILES "$TMPDIR/"',
            "torch.load(path, mmap=True, map_location='cpu')",
            "torch.distributed.checkpoint.load(state, checkpoint_id=PATH)  # sharded",
        ),
    )
