"""GPU time lost, by cause: over single processes a sum, over synchronous ones a maximum.

In a synchronous step every rank waits for the last one. With w_r what rank r lost by itself
(exposed data wait + blocking checkpoint + pass start) and c_r the rest of its step without
collectives, the step took max(w + c) and would have taken max(c): the difference is lost, on all
GPUs of the group. It lies between the least w and the largest, whatever the c are. The rank with
the largest w holds the others, unless it had to wait for them all the same; its causes are the
step's.

- value: the largest w, for ranks of one training do the same work. Where stacks tell how long the
  holder waits in collectives beyond what the least waiting rank does, that much was hidden behind
  the other's longer work and is taken off.
- low: the same, were another rank's work longer than the holder's: as much as the others' rest of
  the step allows (its low percentile over all steps, for it contains waiting for the holder), at
  most 10 %. Where the steps do not grow with the holder's wait at all, the least w.
- high: the largest w.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.gpus import Gpus
from slurm_io.analysis.lockstep import Unit
from slurm_io.analysis.pieces import cut_pieces
from slurm_io.analysis.steps import LOSSES
from slurm_io.analysis.thresholds import Lockstep
from slurm_io.analysis.timeline import Timeline

_LOSS_COLUMNS = [f"l_{name}" for name in LOSSES]
_KEPT = [*_LOSS_COLUMNS, "storage_low_s", "storage_high_s", "lost_high_s"]
_HELD = (
    "unit", "step", "piece", "holder", "size", "pieces", "members", "t0", "ts_ns", "net_s", "gc_s",
    "eval_s", "gap_s", "broken", "own_s", "second_s", "least_s", "rest_s", "slack_s",
    "others_rest_s", *_KEPT,
)  # fmt: skip
_TOLD = (
    "unit", "step", "holder", "members", "t0", "ts_ns", "net_s", "gc_s", "broken", "own_s",
    "second_s", "least_s", "rest_s", "gpus", *_LOSS_COLUMNS,
)  # fmt: skip
_LEAST_STEPS = 30  # before the steps can say whether they grow with the wait
_SPREAD = 0.02  # of a step that waits must differ by for that


@dataclass(frozen=True)
class Losses:
    """GPU-seconds. `unit_steps`: one row a unit and step (seconds, not GPU-seconds): unit step
    holder gpus (of the unit) members (seen in it) t0 ts_ns net_s gc_s broken, what the holder, the
    next rank and the last one lost by themselves (own_s second_s least_s), the holder's other time
    (rest_s), and the losses.
    `by_cause` has a value for each of LOSSES.
    """

    base_gpu_s: float
    startup_gpu_s: float
    by_cause: dict[str, float]
    storage_low_gpu_s: float
    storage_high_gpu_s: float
    data_high_gpu_s: float
    unit_steps: pl.DataFrame
    units: tuple[Unit, ...]

    def share(self, *causes: str) -> float:
        """Share of the training GPU-seconds lost to these causes."""
        lost = sum(self.by_cause[cause] for cause in causes)
        return min(1.0, lost / self.base_gpu_s) if self.base_gpu_s > 0 else 0.0


def add_up(
    steps: pl.DataFrame,
    rows: pl.DataFrame,
    timeline: Timeline,
    units: tuple[Unit, ...],
    gpus: Gpus,
    limits: Lockstep,
    slacks: Mapping[int, float] | None = None,
) -> Losses:
    """Losses of the whole job. `slacks`: proc -> share of a step that it waits in collectives
    beyond the least waiting rank of its unit, where stacks tell."""
    held = _hold(cut_pieces(steps, rows, units), slacks or {}, limits)
    weights = {unit.unit: sum(gpus.of_proc[proc] for proc in unit.procs) for unit in units}
    weight = pl.col("unit").replace_strict(weights, return_dtype=pl.Float64) if weights else 0.0
    held = held.with_columns(gpus=weight)
    sums = held.select((pl.col(name) * pl.col("gpus")).sum() for name in _KEPT).row(0, named=True)
    by_proc = timeline.by_proc
    return Losses(
        base_gpu_s=sum(by_proc[p].training_s * gpus.of_proc[p] for p in by_proc),
        startup_gpu_s=sum(by_proc[p].startup_s * gpus.of_proc[p] for p in by_proc),
        by_cause={name: sums[f"l_{name}"] for name in LOSSES},
        storage_low_gpu_s=sums["storage_low_s"],
        storage_high_gpu_s=sums["storage_high_s"],
        data_high_gpu_s=sums["lost_high_s"],
        unit_steps=held.select(_TOLD),
        units=units,
    )


def _hold(pieces: pl.DataFrame, slacks: Mapping[int, float], limits: Lockstep) -> pl.DataFrame:
    """One row a unit and step: the holder's, less what the others' work hid."""
    held = _charge(_by_piece(pieces, slacks), limits)
    if held.is_empty() or held["pieces"].max() == 1:
        return held
    first = ("members", "t0", "ts_ns", "net_s", "gc_s", "eval_s", "gap_s", "broken")
    return held.group_by("unit", "step", maintain_order=True).agg(
        pl.col("holder").sort_by("own_s", "holder", descending=[True, False]).first(),
        pl.first(*first),
        pl.col("own_s", "rest_s", "second_s", "least_s", *_KEPT).sum(),
    )


def _by_piece(pieces: pl.DataFrame, slacks: Mapping[int, float]) -> pl.DataFrame:
    """One row a piece: the holder's figures, and what of the others' bounds them."""
    marked = _with_rest(pieces)
    sizes = marked["size"].unique().to_list()
    alone = marked if sizes == [1] else marked.filter(pl.col("size") == 1)
    found = [_of_one(alone)] if alone.height or not sizes else []
    if any(size > 1 for size in sizes):
        found.append(_of_several(marked.filter(pl.col("size") > 1), slacks))
    return _in_order(pl.concat(found, rechunk=False))


def _in_order(held: pl.DataFrame) -> pl.DataFrame:
    """By unit, step and piece; one process's are already, and copying them costs memory."""
    return held if _keys(held).is_sorted() else held.sort(_keys(held))


def _of_one(marked: pl.DataFrame) -> pl.DataFrame:
    """Nobody else holds it."""
    nothing = pl.lit(0.0)
    return marked.with_columns(
        pl.col("proc").alias("holder"), pl.col("own_s").alias("least_s"), second_s=nothing,
        slack_s=nothing, others_rest_s=nothing, members=pl.lit(1, pl.UInt32),
    ).select(_HELD)  # fmt: skip


def _of_several(marked: pl.DataFrame, slacks: Mapping[int, float]) -> pl.DataFrame:
    """Grouped by one number: three keys cost twice as much."""
    marked = marked.with_columns(_keys(marked).alias("key")).with_row_index("at")
    own = pl.col("own_s")
    # Rows stand by process, so of equal waits the lowest process holds.
    groups = marked.group_by("key").agg(
        pl.col("at").get(own.arg_max()),
        pl.col("net_s", "gc_s", "eval_s", "gap_s").max(),
        pl.col("broken").any(),
        own.min().alias("least_s"),
        pl.len().alias("members"),
    )
    others = marked.select("key", "own_s")
    others = others.with_columns(others["own_s"].clone().scatter(groups["at"], 0.0))
    second = others.group_by("key").agg(pl.col("own_s").max().alias("second_s"))
    groups = groups.join(second, on="key").sort("key")
    share = pl.col("proc").replace_strict(slacks, default=0.0, return_dtype=pl.Float64)
    holders = marked.select(
        "unit", "step", "piece", pl.col("proc").alias("holder"), "size", "pieces", "t0", "ts_ns",
        "own_s", "rest_s", *_KEPT, share.alias("slack_s") if slacks
        else pl.lit(0.0).alias("slack_s"),
    )[groups["at"]]  # fmt: skip
    both = pl.concat([groups.drop("at", "key"), holders], how="horizontal")
    slack = pl.col("slack_s") * pl.col("net_s") / pl.col("pieces")
    return _with_others_rest(both.with_columns(slack.alias("slack_s")), marked).select(_HELD)


def _keys(pieces: pl.DataFrame) -> pl.Series:
    """Unit, step and piece in one number that sorts like them."""
    if pieces.is_empty() or pieces["piece"].max() == 0:
        return pieces.select(pl.col("unit").cast(pl.Int64) * 2**44 + pl.col("step")).to_series()
    return pieces.select(pl.struct("unit", "step", "piece").rank("dense")).to_series()


def _with_rest(pieces: pl.DataFrame) -> pl.DataFrame:
    """Add own_s of each piece, and rest_s, the step's other time shared over its pieces."""
    marked = pieces.with_columns(pl.sum_horizontal(_LOSS_COLUMNS).alias("own_s"))
    is_cut = not marked.is_empty() and marked["pieces"].max() != 1
    of_step = pl.col("own_s").sum().over("proc", "step") if is_cut else pl.col("own_s")
    rest = (pl.col("gross_s") - of_step).clip(0) / pl.col("pieces")
    return marked.with_columns(rest.alias("rest_s"))


def _with_others_rest(held: pl.DataFrame, marked: pl.DataFrame) -> pl.DataFrame:
    """Add others_rest_s, the largest of the other members' low percentiles; 0 for one alone."""
    pure = marked.group_by("unit", "proc").agg(pl.col("rest_s").quantile(0.10))
    pure = pure.sort("unit", "rest_s", descending=[False, True])
    first = pure.group_by("unit", maintain_order=True).agg(
        pl.col("proc").first().alias("longest"),
        pl.col("rest_s").first().alias("its_rest_s"),
        pl.col("rest_s").slice(1, 1).sum().alias("next_rest_s"),
    )
    joined = held.join(first, on="unit", how="left", maintain_order="left")
    others = pl.when(pl.col("holder") == pl.col("longest")).then("next_rest_s")
    named = others.otherwise("its_rest_s").alias("others_rest_s")
    return joined.with_columns(named).drop("longest", "its_rest_s", "next_rest_s")


def _charge(held: pl.DataFrame, limits: Lockstep) -> pl.DataFrame:
    """The causes at what the step lost, the low bound at what it lost for certain."""
    all_seen = pl.col("members") == pl.col("size")
    # Of a rank that is missing in this step nobody knows that it waited.
    least = pl.when(all_seen).then("least_s").otherwise(0.0)
    held = held.with_columns(least.alias("least_s")).with_columns(
        pl.max_horizontal("least_s", pl.col("own_s") - pl.col("slack_s")).alias("charged_s"),
        pl.col("unit").is_in(_doubtful(held)).alias("doubtful"),
    )
    bound = pl.min_horizontal("others_rest_s", pl.col("rest_s") * (1 + limits.heterogeneity))
    sure = (pl.col("own_s") - (bound - pl.col("rest_s")).clip(0)).clip(0)
    low = pl.max_horizontal("least_s", pl.when("doubtful").then(0.0).otherwise(sure))
    some = pl.col("own_s") > 0
    factor = pl.when(some).then(pl.col("charged_s") / pl.col("own_s")).otherwise(1.0)
    certain = pl.when(some).then(pl.min_horizontal(low, "charged_s") / pl.col("own_s"))
    # Where no work of others hid anything the factor is 1, and columns stay as they are.
    is_hidden = (held["slack_s"] > 0).any()
    return held.with_columns(
        *(pl.col(name) * factor for name in (_LOSS_COLUMNS if is_hidden else ())),
        (pl.col("storage_low_s") * certain.otherwise(1.0)).alias("storage_low_s"),
    )


def _doubtful(held: pl.DataFrame) -> list[int]:
    """Units whose steps take as long whatever their holder waits: then another rank may be the one
    that all wait for."""
    several = held.filter((pl.col("size") > 1) & (pl.col("pieces").max().over("unit") == 1))
    wait = pl.col("own_s") - pl.col("l_ckpt") - pl.col("l_epoch")
    pairs = several.select("unit", wait.alias("wait"), pl.col("net_s").alias("step"))
    return [
        unit for (unit,), mine in pairs.partition_by("unit", as_dict=True).items()
        if isinstance(unit, int) and _stays_as_long(mine)
    ]  # fmt: skip


def _stays_as_long(pairs: pl.DataFrame) -> bool:
    """Slope of the step over the wait, ends clipped: below a half, two standard errors away."""
    if pairs.height < _LEAST_STEPS:
        return False
    ends = pairs.quantile(0.01), pairs.quantile(0.99)
    wait, step = (pairs[name].clip(ends[0][name][0], ends[1][name][0]) for name in ("wait", "step"))
    dx, dy = wait - wait.mean(), step - step.mean()
    varies = float((dx**2).sum())
    mean = step.mean()
    if not isinstance(mean, float) or (varies / pairs.height) ** 0.5 < _SPREAD * mean or not varies:
        return False
    slope = float((dx * dy).sum()) / varies
    error = (float(((dy - slope * dx) ** 2).sum()) / pairs.height / varies) ** 0.5
    return bool(slope + 2 * error < 0.5)
