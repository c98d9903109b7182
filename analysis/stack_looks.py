"""What py-spy's windows saw of each rank, second by second, and which of it was training.

A look shows one state. Looks of one window resemble one another, so windows are what is counted
when it comes to how sure a share is (:mod:`.stack_shares`); a window that goes on for longer than
:data:`WINDOW_NS` is cut. Nobody tells where a step begins. Training opens with the first second
that shows a training step (a known frame of the model, or what comes after a wait for a batch) and
closes with the last second of a step or of a wait: importing, building the model and the wait for
the very first batch come before, the last save after.

Evaluation looks like training, unless a function on the stack is called after it: those seconds are
left out, like loads of a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.batches import NS
from slurm_io.analysis.inputs import Tables

WINDOW_NS = 6 * NS
STATES = ("data_wait", "ckpt", "collective", "import", "gc", "compute", "other")
_COLUMNS = (
    "mono_ns", "interval_ns", "rank", "pid", "role", "state", "sub", "samples", "certain", "folded",
)  # fmt: skip
_CPU_SUBS = ("decoding", "transform", "collate")
_OWN_SUBS = ("reading", *_CPU_SUBS)
_NOT_TRAINING_SUBS = ("restore", "start-up")
# A function called evaluate, validation_step, eval_loop, run_validation; not retrieval, validator.
_EVALUATES = (
    r"(?:^|[;._ ])(?:\w+_)?(?:eval|evaluate|evaluation|val|validate|validation)(?:_\w+)? \("
)
_COUNTS = (
    "looks", "wait", "by_workers", "by_itself", "own_cpu", "handed", "epoch", "ckpt", "collective",
    "vague", "step",
)  # fmt: skip


@dataclass(frozen=True)
class StackRank:
    """One process that trained, by its stacks. `opens`, `closes`: monotonic ns of its node."""

    proc: int
    node: str
    pid: int
    rank: int | None
    opens: int
    closes: int
    windows: int
    looks: int

    @property
    def training_s(self) -> float:
        """From the first to the last look at training."""
        return (self.closes - self.opens) / NS

    @property
    def label(self) -> str:
        """How people call it."""
        return f"rank {self.rank}" if self.rank is not None else f"process {self.pid}"


@dataclass(frozen=True)
class Looks:
    """`seconds`: one row for each second of a rank's training that was looked at: proc node rank
    window from to (monotonic ns) and counts of looks. `looks`: all; `wait`: for a batch, of them
    `by_workers` (they are late) and `by_itself` (it loads, `own_cpu` of it in a decoder, a
    transform or a collate), and `handed` (a batch is taken over); `epoch`: a pass begins or ends;
    `vague`: nothing known.
    """

    ranks: tuple[StackRank, ...]
    seconds: pl.DataFrame

    @property
    def windows(self) -> int:
        """Of all ranks."""
        return sum(rank.windows for rank in self.ranks)

    @property
    def looks(self) -> int:
        """Of all ranks."""
        return sum(rank.looks for rank in self.ranks)


def read_looks(tables: Tables, hooked: frozenset[tuple[str, int]]) -> Looks:
    """Looks at ranks that are not among `hooked` (node, pid)."""
    rows = _rows(tables)
    known = pl.DataFrame(
        sorted(hooked), schema={"node": rows.schema["node"], "pid": pl.Int32}, orient="row"
    )
    seconds = _by_second(rows.join(known, on=["node", "pid"], how="anti"))
    inside = _with_windows(_training(seconds))
    ranks = inside.group_by("proc", maintain_order=True).agg(
        pl.first("node", "pid"),
        pl.col("rank").drop_nulls().first(),
        pl.col("from").min().alias("opens"),
        pl.col("to").max().alias("closes"),
        pl.col("window").n_unique().alias("windows"),
        pl.col("looks").sum(),
    )
    return Looks(tuple(StackRank(**row) for row in ranks.iter_rows(named=True)), inside)


def _rows(tables: Tables) -> pl.DataFrame:
    """Rows of ranks, with the samples of evaluation and of loads left out."""
    raw = (
        tables.frame("stacks", _COLUMNS)
        .drop_nulls(["mono_ns", "pid", "state"])
        .filter(
            (pl.col("role") == "rank") & (pl.col("samples") > 0) & pl.col("state").is_in(STATES)
        )
        .with_columns(
            pl.col("interval_ns").fill_null(NS).clip(1, 60 * NS),
            pl.col("certain").fill_null(0).clip(0),
            pl.col("sub").fill_null(""),
            pl.col("folded").fill_null(""),
        )
    )
    elsewhere = pl.col("sub").is_in(_NOT_TRAINING_SUBS) | pl.col("folded").str.contains(_EVALUATES)
    return raw.filter(~elsewhere)


def _by_second(rows: pl.DataFrame) -> pl.DataFrame:
    """One row for each second of a process, with all of :data:`_COUNTS`."""
    state, sub = pl.col("state"), pl.col("sub")
    is_epoch = (state == "data_wait") & (sub == "epoch")
    # Where another rank reads for this one, that rank's wait counts, and this one's is like a
    # collective.
    is_other_ranks = (state == "data_wait") & (sub == "dispatcher")
    wait = (state == "data_wait") & ~is_epoch & ~is_other_ranks
    own = wait & sub.is_in(_OWN_SUBS)
    handed = wait & (sub == "receiving")
    unclear = wait & (sub == "unknown")
    late = wait & ~own & ~handed & ~unclear
    picked = {
        "wait": wait,
        "by_workers": late,
        "by_itself": own | unclear,
        "handed": handed,
        "epoch": is_epoch,
        "ckpt": state == "ckpt",
        "collective": (state == "collective") | is_other_ranks,
        "vague": (state == "other") | (state == "import"),
        "compute": state == "compute",
    }
    counted = rows.group_by("node", "pid", "mono_ns").agg(
        pl.col("rank").drop_nulls().first(),
        (pl.col("mono_ns").first() - pl.col("interval_ns").max()).alias("from"),
        pl.col("samples").sum().alias("looks"),
        *(pl.col("samples").filter(test).sum().alias(name) for name, test in picked.items()),
        pl.col("certain").filter(wait & sub.is_in(_CPU_SUBS)).sum().alias("own_cpu"),
        pl.col("certain").filter(state == "compute").sum().alias("sure"),
    )
    ordered = counted.rename({"mono_ns": "to"}).sort("node", "pid", "to")
    return ordered.with_columns(
        pl.struct("node", "pid").rle_id().cast(pl.Int32).alias("proc")
    ).with_columns(_step().alias("step"))


def _step() -> pl.Expr:
    """Looks at a training step; what is left without a known frame counts once a batch was asked
    for, and a collective too: ranks meet before they train. One that is never seen to ask, as its
    batches are always there, trains when it meets others that do."""
    asks = pl.col("to").filter(pl.col("wait") > 0).min()
    meets = pl.col("collective").sum().over("proc") > 0
    asked = pl.coalesce(asks.over("proc"), pl.when(meets).then(asks.over("node")))
    return (
        pl.when(pl.col("to") >= asked)
        .then(pl.col("compute") + pl.col("collective"))
        .otherwise("sure")
    )


def _training(seconds: pl.DataFrame) -> pl.DataFrame:
    """The seconds of processes that trained, from the first step to the last step or wait."""
    is_step = pl.col("step") > 0
    is_training = is_step | (pl.col("wait") > 0)
    spans = seconds.group_by("proc").agg(
        pl.col("from").filter(is_step).min().alias("opens"),
        pl.col("to").filter(is_training).max().alias("closes"),
    )
    # A script that computes something and never asks for a batch is no training.
    spans = spans.drop_nulls("opens")
    inside = seconds.join(spans, on="proc", maintain_order="left").filter(
        (pl.col("from") >= pl.col("opens")) & (pl.col("to") <= pl.col("closes"))
    )
    return inside.drop("opens", "closes", "compute", "sure")


def _with_windows(seconds: pl.DataFrame) -> pl.DataFrame:
    """Add `window`, numbered within the process."""
    gap = (pl.col("from") - pl.col("to").shift(1) > 1.5 * NS).over("proc").fill_null(False)
    stretched = seconds.with_columns(gap.cum_sum().over("proc").alias("stretch"))
    begun = pl.col("from") - pl.col("from").min().over("proc", "stretch")
    part = pl.struct("stretch", begun // WINDOW_NS)
    return stretched.with_columns(part.rle_id().over("proc").cast(pl.Int32).alias("window")).select(
        "proc", "node", "pid", "rank", "window", "from", "to", *_COUNTS
    )
