"""What each rank lost between two collectives: the pieces a synchronous group's loss is made of.

Ordinarily a piece is an optimizer step, also where gradients are accumulated over several batches
and exchanged once: then the waits of a step's batches add up before the others have to wait. Where
every batch ends in a collective (parameters gathered for each, gradients exchanged for each), the
ranks meet at each batch, and each batch is a piece. Which it is the starts of the batches show:
within a step two ranks drift apart by what they lost (one exchange), or they do not (one a batch).
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from slurm_io.analysis.batches import NS
from slurm_io.analysis.lockstep import Unit
from slurm_io.analysis.samples import CAUSES

_STEPS_ASKED = 2000  # of a group, evenly spread: which of the two it is does not change
_LEAST_STEPS = 10
_SEVERAL = 1.5  # batches a step before one asks
_GIVEN_BACK = 2.0  # lost differences over start differences, from which on every batch is a meeting
_OF_BATCH = ("handover", *CAUSES)
AMOUNTS = ("storage_low_s", "storage_high_s", "lost_high_s")


def members_of(units: Sequence[Unit]) -> pl.DataFrame:
    """(proc, unit, size, shift) of all processes."""
    return pl.DataFrame(
        [(p, unit.unit, len(unit.procs), unit.shifts.get(p, 0)) for unit in units
         for p in unit.procs],
        schema={"proc": pl.Int32, "unit": pl.Int32, "size": pl.UInt32, "shift": pl.Int64},
        orient="row",
    )  # fmt: skip


def cut_pieces(steps: pl.DataFrame, rows: pl.DataFrame, units: Sequence[Unit]) -> pl.DataFrame:
    """`steps` with unit, size, piece and pieces (of its step); `step` counts as in the unit.

    `steps`: one row a process and step; `rows`: its batches with their losses. A step that is cut
    has one row a batch; what belongs to no batch (saves, starts of passes) is in its last one.
    """
    members = members_of(units)
    placed = steps.with_columns(
        _of_member(members, "unit"), _of_member(members, "size"),
        pl.lit(0, pl.UInt32).alias("piece"), pl.lit(1, pl.UInt32).alias("pieces"),
    )  # fmt: skip
    several = _of_several_batches(steps, rows)
    cut = [u.unit for u in units if several & {*u.procs} and meets_each_batch(rows, u)]
    if cut:
        batches = _batches(rows, members.filter(pl.col("unit").is_in(cut)))
        finer = _cut(placed.filter(pl.col("unit").is_in(cut)), batches)
        placed = pl.concat(
            [placed.filter(~pl.col("unit").is_in(cut)), finer.select(placed.columns)]
        )
    if not any(unit.shifts for unit in units):
        return placed
    return placed.with_columns(pl.col("step") + _of_member(members, "shift"))


def _of_member(members: pl.DataFrame, name: str) -> pl.Expr:
    """A column of `members`, by proc; a join would copy all columns of the steps."""
    found = pl.col("proc").replace_strict(
        members["proc"], members[name], default=None, return_dtype=members.schema[name]
    )
    return found.alias(name)


def _of_several_batches(steps: pl.DataFrame, rows: pl.DataFrame) -> set[int]:
    """Processes that ask for several batches a step, as a rule."""
    batches = rows.group_by("proc").len("batches")
    counted = steps.group_by("proc").len("steps").join(batches, on="proc")
    found = counted.filter(pl.col("batches") >= _SEVERAL * pl.col("steps"))
    return set(found["proc"].to_list())


def meets_each_batch(rows: pl.DataFrame, unit: Unit) -> bool:
    """Whether the ranks of `unit` exchange something for every batch of a step."""
    if not unit.is_synchronous:
        return False
    mine, other = (_within_steps(rows, unit, proc) for proc in unit.procs[:2])
    steps = mine["step"].unique().sort()
    asked = steps.gather_every(max(1, len(steps) // _STEPS_ASKED))
    both = mine.filter(pl.col("step").is_in(asked.implode())).join(
        other, on=["step", "piece"], suffix="_other"
    )
    both = both.filter(pl.col("piece") > 0)
    if both["step"].n_unique() < _LEAST_STEPS:
        return False
    apart = (both["since_s"] - both["since_s_other"]).abs().quantile(0.9) or 0.0
    lost = (both["own_s"] - both["own_s_other"]).abs().quantile(0.9) or 0.0
    return lost >= _GIVEN_BACK * apart and lost > 0


def _within_steps(rows: pl.DataFrame, unit: Unit, proc: int) -> pl.DataFrame:
    """(step, piece, since_s, own_s): since the step's first batch began, and lost since then."""
    own = pl.sum_horizontal(pl.col("handover_s"), *(f"l_{cause}" for cause in CAUSES))
    until = (own.cum_sum() - own).over("step")
    return rows.filter(pl.col("proc") == proc).select(
        pl.col("step") + unit.shifts.get(proc, 0),
        pl.int_range(pl.len()).over("step").alias("piece"),
        ((pl.col("start") - pl.col("start").first().over("step")) / NS).alias("since_s"),
        until.alias("own_s"),
    )


def _batches(rows: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    mine = rows.join(members.select("proc"), on="proc", maintain_order="left")
    key = ("proc", "step")
    return mine.with_columns(pl.col("handover_lost_s").alias("l_handover")).select(
        *key,
        pl.int_range(pl.len(), dtype=pl.UInt32).over(key).alias("piece"),
        pl.len().over(key).cast(pl.UInt32).alias("pieces"),
        *(f"l_{name}" for name in _OF_BATCH),
        *AMOUNTS,
    )


def _cut(steps: pl.DataFrame, batches: pl.DataFrame) -> pl.DataFrame:
    kept = steps.drop("piece", "pieces", *(f"l_{name}" for name in _OF_BATCH), *AMOUNTS)
    finer = kept.join(batches, on=["proc", "step"], maintain_order="left")
    last = pl.col("piece") == pl.col("pieces") - 1
    return finer.with_columns(
        pl.when(last).then(pl.col(name)).otherwise(0.0).alias(name)
        for name in ("l_ckpt", "l_epoch")
    )
