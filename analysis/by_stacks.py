"""Where training time went when no hook timed it: the partition, seen by stacks alone.

Taken only where no process of the job has a hook's batches. Of ranks without a hook in a job that
has hooked ones it is told what their stacks show, and they are in none of the report's shares.

The interval of a share has the sampling of the windows in it, what windows may have missed, a
margin for samples taken from outside, and for its upper end what nobody could name: waits of an
unknown cause, looks that showed nothing known, storage waits outside any wait for a batch. Dense
samples bound it from above: storage can have held training no longer than any of its processes was
seen in storage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.bounds import Range
from slurm_io.analysis.facts import ranks_of, whole
from slurm_io.analysis.inputs import StoreView, Tables
from slurm_io.analysis.losses import Losses
from slurm_io.analysis.stack_causes import PARTS, StackCauses, find_stack_causes
from slurm_io.analysis.stack_looks import Looks, StackRank, read_looks
from slurm_io.analysis.stack_shares import Group, Together, missed, of_all, ratio
from slurm_io.analysis.steps import LOSSES
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.analysis.timeline import Timeline

NS = 1_000_000_000
_STORAGE = ("storage", "net")
_LOST = ("storage", "net", "cpu", "pipeline", "sleep", "unknown", "ckpt")
_SYNCHRONOUS_LOOKS = 3  # in collectives, of at least two ranks: fewer may be the start


@dataclass(frozen=True)
class ByStacks:
    """What stacks tell of ranks without a hook. Shares are of their GPU time from the first to the
    last step seen, evaluation that bears no name of its own included.

    `refusal` is "" where there is enough to judge. `value`: share of each of :data:`PARTS` and of
    ``vague``; `found`: the seen causes' ranges (data_wait, data_storage, cpu, pipeline, vague_wait,
    ckpt). `holder`: the rank that waits most, None where it is not known to hold others.
    """

    looks: Looks
    together: Together
    value: Mapping[str, float]
    found: Mapping[str, Range]
    causes: StackCauses
    losses: Losses
    holder: StackRank | None
    refusal: str

    @property
    def training_s(self) -> float:
        """Of the process that trained longest."""
        return max((rank.training_s for rank in self.looks.ranks), default=0.0)

    @property
    def text(self) -> str:
        """By what it was seen."""
        windows, looked = self.looks.windows, self.looks.seconds.height
        each = looked / windows if windows else 0.0
        return (
            f"seen by stacks, no hook: {windows} windows of {each:.0f} s, {self.looks.looks} looks"
        )

    def is_sure(self, name: str, limit: float) -> bool:
        """Whether the share of `name` reaches `limit` with 95 %."""
        return self.found[name].low >= limit


def see_by_stacks(
    tables: Tables, timeline: Timeline, store: StoreView, thresholds: Thresholds
) -> ByStacks | None:
    """None where no stacks of a training rank without a hook were recorded."""
    hooked = frozenset((process.node, process.pid) for process in timeline.processes)
    looks = read_looks(tables, hooked)
    if not looks.ranks:
        return None
    causes = find_stack_causes(tables, looks, thresholds)
    group = Group(
        tuple(causes.parts.filter(pl.col("proc") == rank.proc) for rank in looks.ranks),
        _together(store, looks, causes.parts),
        _unseen(looks),
    )
    holder = group.holder(("wait", "ckpt"))
    ceiling = _ceiling(group, causes, thresholds)
    value = _below(ceiling, _values(group, holder))
    found = _ranges(group, holder, ceiling, thresholds)
    held = looks.ranks[holder[0]] if group.together == "in step" else None
    return ByStacks(
        looks=looks,
        together=group.together,
        value=value,
        found=found,
        causes=causes,
        losses=_losses(store, looks, value, found),
        holder=held,
        refusal=_refusal(looks, causes, value, thresholds),
    )


def _together(store: StoreView, looks: Looks, parts: pl.DataFrame) -> Together:
    """Whether the ranks wait for one another."""
    if len(looks.ranks) == 1:
        return "one"
    told = {
        (name, pid): rank
        for name, view in store.nodes.items()
        for rank in ranks_of(view)
        if (pid := whole(rank.get("pid"))) is not None
    }
    facts = [told.get((rank.node, rank.pid), {}) for rank in looks.ranks]
    sizes = [whole(one.get("world_size")) for one in facts]
    in_collectives = parts.group_by("proc").agg(pl.col("collective").sum())
    if int((in_collectives["collective"] >= _SYNCHRONOUS_LOOKS).sum()) >= 2:
        return "in step"
    # torchrun and mpirun start ranks of one training; srun may start anything.
    by_launcher = all(one.get("numbered_by") == "launcher" for one in facts)
    if by_launcher and all(size is not None and size > 1 for size in sizes):
        return "in step"
    return "apart" if all(size == 1 for size in sizes) else "not known"


def _unseen(looks: Looks) -> float:
    """What windows may have missed. Windows of different nodes may lie at one time, so those of the
    node with most of them count."""
    by_node: dict[str, list[StackRank]] = {}
    for rank in looks.ranks:
        by_node.setdefault(rank.node, []).append(rank)
    best = max(by_node.values(), key=lambda ranks: sum(rank.windows for rank in ranks))
    nodes = {rank.node for rank in best}
    looked_s = looks.seconds.filter(pl.col("node").is_in(list(nodes))).height
    training_s = max(rank.training_s for rank in best)
    at = looked_s / training_s if training_s > 0 else 0.0
    return missed(sum(rank.windows for rank in best), at)


def _values(group: Group, holder: tuple[int, float]) -> dict[str, float]:
    """Share of each part: the holder's where ranks go in step, else the mean over ranks."""
    names = (*PARTS, "vague", "wait", "stray")
    if group.together == "in step":
        place, factor = holder
        own = {name: ratio(group.parts[place], [name]).value for name in names}
        return {name: min(1.0, own[name] * (factor if name != "vague" else 1)) for name in names}
    count = len(group.parts)
    return {
        name: sum(ratio(parts, [name]).value for parts in group.parts) / count for name in names
    }


def _below(ceiling: float, value: dict[str, float]) -> dict[str, float]:
    """Storage in excess of what all samples allow has no known cause."""
    storage = sum(value[name] for name in _STORAGE)
    if storage <= ceiling:
        return value
    kept = {name: value[name] * ceiling / storage for name in _STORAGE}
    return value | kept | {"unknown": value["unknown"] + storage - ceiling}


def _ranges(
    group: Group, holder: tuple[int, float], ceiling: float, thresholds: Thresholds
) -> dict[str, Range]:
    def of(*names: str) -> Range:
        return of_all(group, names, holder)

    storage, soft = of(*_STORAGE), of("soft").value
    most = of(*_STORAGE, "sleep", "unknown", "handover", "vague", "stray").high
    margin = thresholds.sampling.systematic
    at = min(storage.value, ceiling)
    return {
        "data_wait": of("wait"),
        "data_storage": Range(
            min(at, max(0.0, storage.low - soft) * (1 - margin)),
            at,
            max(at, min(most * (1 + margin), ceiling)),
        ),
        "cpu": of("cpu"),
        "pipeline": of("pipeline", "epoch"),
        "vague_wait": of("sleep", "unknown"),
        "ckpt": of("ckpt"),
        "lost": of(*_LOST, "epoch"),
    }


def _ceiling(group: Group, causes: StackCauses, thresholds: Thresholds) -> float:
    """How long storage can have held training, by all wait samples; 1 without any."""
    if causes.ceiling is None or not _is_sampled(causes, thresholds):
        return 1.0
    ranks = len(group.parts) if group.together in ("in step", "not known") else 1
    most = causes.ceiling * (1 + thresholds.sampling.systematic) * ranks
    return min(1.0, most + thresholds.shares.data_storage / 3)


def _is_sampled(causes: StackCauses, thresholds: Thresholds) -> bool:
    passes = causes.causes.samples["passes"].sum()
    return bool(passes >= 100 * thresholds.enough.wait_samples)


def _refusal(
    looks: Looks, causes: StackCauses, value: Mapping[str, float], thresholds: Thresholds
) -> str:
    """Why there is not enough to judge."""
    enough = thresholds.stacks
    if looks.windows < enough.windows or looks.looks < enough.looks:
        return (
            f"no hook, and stacks show {looks.looks} looks in {looks.windows} windows of training: "
            f"at least {enough.looks} in {enough.windows} are needed (a longer run, or a larger "
            "stacks_share)"
        )
    if value["vague"] > enough.vague_share:
        return (
            f"no hook, and {value['vague']:.0%} of the looks at stacks show nothing known: wrap "
            "the loader with slurm_io_hook.watch(loader)"
        )
    return ""


def _losses(
    store: StoreView, looks: Looks, value: Mapping[str, float], found: Mapping[str, Range]
) -> Losses:
    """As the hook's, without steps."""
    on_node = store.job.gpus_on_node if store.job is not None else None
    per_node: dict[str, int] = {}
    for rank in looks.ranks:
        per_node[rank.node] = per_node.get(rank.node, 0) + 1
    base = sum(
        rank.training_s * (on_node / per_node[rank.node] if on_node and on_node > 0 else 1.0)
        for rank in looks.ranks
    )
    data = found["data_storage"]
    return Losses(
        base_gpu_s=base,
        startup_gpu_s=0.0,
        by_cause={name: value[name] * base for name in LOSSES},
        storage_low_gpu_s=data.low * base,
        storage_high_gpu_s=data.high * base,
        data_high_gpu_s=found["data_wait"].high * base,
        unit_steps=_no_steps(),
        units=(),
    )


def _no_steps() -> pl.DataFrame:
    return pl.DataFrame(
        schema={
            "unit": pl.Int32, "step": pl.Int64, "holder": pl.Int32, "t0": pl.Int64,
            "ts_ns": pl.Int64, "net_s": pl.Float64, "gc_s": pl.Float64, "own_s": pl.Float64,
            "second_s": pl.Float64, "least_s": pl.Float64, "rest_s": pl.Float64,
            "gpus": pl.Float64, "members": pl.UInt32, "broken": pl.Boolean,
            **{f"l_{name}": pl.Float64 for name in LOSSES},
        }
    )  # fmt: skip


def names_of(ranks: Sequence[StackRank]) -> str:
    """The first few, for people."""
    shown = ", ".join(rank.label for rank in ranks[:4])
    return shown if len(ranks) <= 4 else f"{shown} and {len(ranks) - 4} more"
