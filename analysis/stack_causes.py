"""Why ranks waited for data, in the seconds in which their stacks show that they did.

The hook tells of each wait sample whether the rank was waiting when it was taken; without it only
seconds can be matched. Two kinds of loader, told apart by the stack:

- Worker processes are late. What they did in that second is the evidence, split by the rules that
  hold with the hook (:mod:`.samples`, :mod:`.queueing`, :mod:`.shares`). In windows in which
  workers had nothing to do for a quarter of their time, batches being taken over, and waits of at
  most :data:`_HANDOVER_SHARE` of the window, are the hand-over: no stall. Where workers always had
  something to do, taking a batch over is part of the wait for them (were it shorter, the wait would
  be longer), and the lower bound is made without it.
- The rank loads by itself: :mod:`.stack_own`.

Samples of two ranks of one number on a node cannot be told apart and explain nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.batches import NS
from slurm_io.analysis.causes import Causes
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.own_cpu import NOBODY
from slurm_io.analysis.queueing import really_ready, really_running, relieve
from slurm_io.analysis.samples import CAUSES, COUNTS, assign, explain, read_samples, thinning
from slurm_io.analysis.seconds import phases, with_second
from slurm_io.analysis.shares import spread
from slurm_io.analysis.stack_looks import Looks
from slurm_io.analysis.stack_own import of_itself
from slurm_io.analysis.thresholds import Thresholds

PARTS = (*CAUSES, "handover", "epoch", "ckpt")
_HANDOVER_SHARE = 0.15  # a stock loader's 2.7 ms a batch in steps of 18 ms
_IDLE_SHARE = 0.25
_KEYS = ["proc", "window"]


@dataclass(frozen=True)
class StackCauses:
    """`parts`: one row for each window, in looks (fractions of them): proc window looks wait vague
    and each of :data:`PARTS`. `causes`: the evidence, as the witnesses read it, without rows.
    `soft`: of the storage part, that in which batches were taken over. `ceiling`: share of all wait
    samples of the ranks' training, looked at or not, in which a process of the rank was in storage
    or in something unknown: storage cannot have held training for longer. None without samples.
    """

    parts: pl.DataFrame
    causes: Causes
    ceiling: float | None


def find_stack_causes(tables: Tables, looks: Looks, thresholds: Thresholds) -> StackCauses:
    """Split the waits of every window."""
    every = thinning(sum(rank.training_s for rank in looks.ranks), thresholds.sampling)
    samples = _of_one_rank_each(read_samples(tables, every), looks)
    names = samples.schema["node"]
    spans = _spans(looks, names)
    borders = phases(samples, spans)
    placed = with_second(assign(samples, spans), borders)
    middle = (pl.col("from") + pl.col("to")) // 2 - pl.col("border")
    seconds = looks.seconds.join(borders, on="node")
    seconds = seconds.with_columns((middle // NS).alias("sec")).drop("border")
    fed = placed.filter(pl.col("role") == "worker").select("proc").unique()
    is_fed = pl.col("proc").is_in(fed["proc"].to_list())
    seconds = seconds.with_columns(
        pl.when(is_fed).then("by_workers").otherwise(0).alias("by_workers"),
        pl.when(is_fed).then("handed").otherwise(0).alias("handed"),
        pl.when(is_fed).then("by_itself")
        .otherwise(pl.col("by_itself") + pl.col("by_workers") + pl.col("handed"))
        .alias("by_itself"),
    )  # fmt: skip
    late, late_evidence, late_seconds = _of_workers(seconds, placed, tables, every, thresholds)
    of_ranks = placed.filter(pl.col("role") == "rank")
    ready = really_ready(of_ranks, tables, every, "rank")
    own, own_evidence, own_seconds = of_itself(seconds, placed, ready)
    parts = _parts(seconds, late, own)
    evidence = pl.concat([late_evidence, own_evidence], how="vertical_relaxed")
    held = pl.concat([late_seconds, own_seconds], how="vertical_relaxed")
    held = held.group_by("proc", "sec").agg(pl.col("wait_s", "storage_s").sum())
    held = held.join(spans.select("proc", "node"), on="proc").select(
        "node", "proc", "sec", "wait_s", "storage_s"
    )
    marked = _marked(placed, seconds)
    causes = Causes(pl.DataFrame(), marked, evidence, held, borders, every)
    of_workers = really_running(placed.filter(pl.col("role") == "worker"), tables, every, "worker")
    roles = pl.concat([
        really_running(of_ranks, tables, every, "rank").with_columns(pl.lit("rank").alias("role")),
        of_workers.with_columns(pl.lit("worker").alias("role")),
    ])  # fmt: skip
    return StackCauses(parts, causes, _ceiling(placed, roles))


def _spans(looks: Looks, names: pl.DataType) -> pl.DataFrame:
    """As the batches of a process would be, for :func:`.samples.assign`."""
    return pl.DataFrame(
        [(r.proc, r.node, r.rank, r.opens, r.closes) for r in looks.ranks],
        schema={"proc": pl.Int32, "node": names, "rank": pl.Int32, "start": pl.Int64,
                "end": pl.Int64},
        orient="row",
    )  # fmt: skip


def _of_one_rank_each(samples: pl.DataFrame, looks: Looks) -> pl.DataFrame:
    """Samples whose node and rank mean one process; the thinned ones only."""
    seen: dict[tuple[str, int], int] = {}
    for rank in looks.ranks:
        key = rank.node, -1 if rank.rank is None else rank.rank
        seen[key] = seen.get(key, 0) + 1
    shared = pl.DataFrame(
        [key for key, count in seen.items() if count > 1],
        schema={"node": samples.schema["node"], "rank": pl.Int32},
        orient="row",
    )
    return samples.join(shared, on=["node", "rank"], how="anti")


def _of_workers(
    seconds: pl.DataFrame, placed: pl.DataFrame, tables: Tables, every: int, thresholds: Thresholds
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """(looks by cause and window, evidence, seconds) of waits for workers."""
    late = seconds.filter(pl.col("by_workers") + pl.col("handed") > 0)
    waits = late.group_by("proc", "sec").agg(
        (pl.col("by_workers") + pl.col("handed")).sum().cast(pl.Float64).alias("wait_s"),
        ((pl.col("by_workers") + pl.col("handed")).sum() / pl.col("looks").sum()).alias("waiting"),
    )
    marked = placed.join(waits, on=["proc", "sec"], how="semi").with_columns(
        pl.lit("data_wait").alias("phase"), pl.lit(0, pl.Int32).alias("loader")
    )
    loaders = waits.select("proc").unique().select(
        "proc", pl.lit(0, pl.Int32).alias("loader"), pl.lit(True).alias("workers")
    )  # fmt: skip
    # Of a second's passes those count that fell into the wait, as far as its looks tell; workers
    # that were busy in it were busy then, for that is why the rank waited.
    in_wait = marked.join(waits, on=["proc", "sec"]).with_columns(
        pl.col("passes") * pl.col("waiting")
    )
    evidence = relieve(explain(in_wait, loaders), marked, loaders, NOBODY, tables, every)
    split = spread(waits.select("proc", "sec", "wait_s"), evidence, thresholds.sampling)
    idle = _idleness(marked)
    blocked = pl.col("p_storage") + pl.col("p_net")
    each = ("by_workers", "handed")
    by_window = (
        late.select("proc", "window", "sec", *each)
        .join(split.drop("wait_s", "passes"), on=["proc", "sec"], how="left")
        .group_by(_KEYS)
        .agg(
            *((pl.col(f"p_{name}") * pl.col(one)).sum().alias(f"{name}_{one}")
              for name in CAUSES for one in each),
            (blocked * pl.col("handed")).sum().alias("soft"),
            pl.col(*each).sum(),
        )
        .join(_looks(seconds), on=_KEYS)
        .join(_by_window(idle, late), on=_KEYS, how="left")
    )  # fmt: skip
    at_ease = pl.col("idle").fill_null(0) >= _IDLE_SHARE
    small = at_ease & (pl.col("by_workers") <= _HANDOVER_SHARE * pl.col("looks"))
    by_window = by_window.select(
        *_KEYS,
        *(
            (
                pl.when(small).then(0.0).otherwise(pl.col(f"{name}_by_workers"))
                + pl.when(at_ease).then(0.0).otherwise(pl.col(f"{name}_handed"))
            ).alias(name)
            for name in CAUSES
        ),
        (
            pl.when(small).then("by_workers").otherwise(0)
            + pl.when(at_ease).then("handed").otherwise(0)
        ).cast(pl.Float64).alias("handover"),
        pl.when(at_ease).then(0.0).otherwise(pl.col("soft")).alias("soft"),
    )  # fmt: skip
    held = split.join(waits.select("proc", "sec", "waiting"), on=["proc", "sec"]).select(
        "proc",
        "sec",
        pl.col("waiting").alias("wait_s"),
        (pl.col("waiting") * (pl.col("p_storage") + pl.col("p_net"))).alias("storage_s"),
    )
    return by_window, evidence, held


def _idleness(marked: pl.DataFrame) -> pl.DataFrame:
    """(proc, sec, n_pipe, n_all) of the workers."""
    workers = marked.filter(pl.col("role") == "worker")
    return workers.group_by("proc", "sec").agg(
        pl.col("n_pipe").sum(), pl.sum_horizontal(pl.col(f"n_{c}").sum() for c in COUNTS).alias("n")
    )


def _by_window(idle: pl.DataFrame, late: pl.DataFrame) -> pl.DataFrame:
    joined = late.select("proc", "window", "sec").join(idle, on=["proc", "sec"])
    return joined.group_by(_KEYS).agg((pl.col("n_pipe").sum() / pl.col("n").sum()).alias("idle"))


def _looks(seconds: pl.DataFrame) -> pl.DataFrame:
    return seconds.group_by(_KEYS).agg(pl.col("looks").sum())


def _parts(seconds: pl.DataFrame, late: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """The windows with the looks of each part, those of both kinds of loader together."""
    windows = seconds.group_by(_KEYS).agg(
        pl.col("looks", "wait", "vague", "epoch", "ckpt", "collective").sum(),
        pl.col("to").max(),
    )
    joined = windows.join(late, on=_KEYS, how="left").join(own, on=_KEYS, how="left", suffix="_own")
    filled = joined.with_columns(
        pl.col(*CAUSES, "handover", "soft", *(f"{name}_own" for name in CAUSES), "stray").fill_null(
            0.0
        )
    )
    return filled.select(
        *_KEYS,
        pl.col("looks", "wait", "vague", "collective", "epoch", "ckpt").cast(pl.Float64),
        *((pl.col(name) + pl.col(f"{name}_own")).alias(name) for name in CAUSES),
        "handover",
        "soft",
        "stray",
    ).sort(_KEYS)


def _marked(placed: pl.DataFrame, seconds: pl.DataFrame) -> pl.DataFrame:
    """All samples, those of seconds with a wait in the phase `data_wait`."""
    waited = seconds.filter(pl.col("wait") > 0).select(
        "proc", "sec", pl.lit(True).alias("waited")
    ).unique()  # fmt: skip
    joined = placed.join(waited, on=["proc", "sec"], how="left")
    phase = pl.when(pl.col("waited")).then(pl.lit("data_wait")).otherwise("phase")
    return joined.with_columns(phase.alias("phase")).drop("waited")


def _ceiling(placed: pl.DataFrame, real: pl.DataFrame) -> float | None:
    """See :class:`StackCauses`; of the rank for which it is highest. Who queued for a CPU may have
    come from storage."""
    doubtful = ("storage", "net", "sleep", "lock", "other", "unknown", "gpu")
    ticks = placed.group_by("proc", "role", "mono_ns").agg(
        pl.col("passes").max(),
        pl.sum_horizontal(pl.col(f"n_{name}").sum() for name in doubtful).alias("hits"),
        pl.sum_horizontal(
            pl.col(f"n_{name}").sum() for name in ("storage", "net", "other", "unknown")
        ).alias("blocked"),
        pl.col("n_cpu").sum(),
    )
    ticks = ticks.join(real, on=["proc", "role"], how="left")
    queued = pl.col("n_cpu") * (1 - pl.col("real").fill_null(1.0))
    # A rank itself in a lock, asleep or in its driver may be in any part of its step.
    hits = pl.when(pl.col("role") == "worker").then("hits").otherwise("blocked")
    held = pl.min_horizontal(hits + pl.when(hits > 0).then(queued).otherwise(0.0), "passes")
    shares = (
        ticks.group_by("proc", "role")
        .agg((held.sum() / pl.col("passes").sum()).alias("share"))
        .group_by("proc")
        .agg(pl.col("share").sum())
    )
    highest = shares["share"].max()
    return min(1.0, float(highest)) if isinstance(highest, (int, float)) else None
