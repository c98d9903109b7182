"""What py-spy's stacks say of the ranks' time, beside what the hook timed in the same seconds.

Two views that know nothing of each other. Stacks come in windows of some seconds, so the hook's
share is taken over just those seconds, each weighted by its samples. The interval is Wilson's for
a binomial at 95 %, of half as many samples: py-spy looks at moments drawn by chance, and a stack
counts for the time until the next look, which varies as much as it lasts. They agree where the
hook's share lies in it, give or take two points: a sample sees a batch's hand-over, and the hook's
clock stops before it. Starting and ending passes over a loader is no wait of the hook's and is left
out on both sides. Without a hook the report's own shares are made of stacks (:mod:`.by_stacks`):
there the interval is wider, for windows are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from slurm_io.analysis.batches import NS
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.shares import wilson

_COLUMNS = ("mono_ns", "interval_ns", "rank", "pid", "role", "state", "sub", "samples")
_Z = 1.96
_TOLERANCE = 0.02
_SAMPLES_WORTH_ONE = 2  # of weights drawn from an exponential distribution
_FEWEST_SAMPLES = 50
_DIGITS = 4
_COMPARED = ("data_wait", "ckpt")
_STATES = ("data_wait", "ckpt", "collective", "import", "gc", "compute", "other")
_WORDS = {"data_wait": "data wait", "ckpt": "checkpoints"}


@dataclass(frozen=True)
class Share:
    """A share of all samples, with its 95 % interval. `hook`: of the same seconds, or None."""

    value: float
    low: float
    high: float
    hook: float | None

    @property
    def agrees(self) -> bool | None:
        """None when there is nothing to compare with."""
        if self.hook is None:
            return None
        return self.low - _TOLERANCE <= self.hook <= self.high + _TOLERANCE

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "share": round(self.value, _DIGITS),
            "low": round(self.low, _DIGITS),
            "high": round(self.high, _DIGITS),
            "hook": round(self.hook, _DIGITS) if self.hook is not None else None,
            "agrees": self.agrees,
        }


@dataclass(frozen=True)
class StackCheck:
    """`samples` of `ranks` processes in all. `states`: share of each state that came. `stands`:
    whether stacks stand for a hook that timed nothing."""

    samples: int
    ranks: int
    data_wait: Share
    ckpt: Share
    states: dict[str, float]
    differing: tuple[str, ...]
    stands: bool

    def text(self) -> str:
        """One line for people."""
        parts = [_part(name, getattr(self, name)) for name in _COMPARED]
        base = f"of {self.samples} samples of {self.ranks} rank{'s' * (self.ranks != 1)}"
        return f"by stacks: {', '.join(parts)} ({base})"

    def note(self) -> str | None:
        """What to make of a disagreement, or of having no hook."""
        if self.data_wait.hook is None:
            return None if self.stands else (
                "no hook timed batches in these seconds, and stacks show too little to stand for "
                "it: they are not in the shares above"
            )  # fmt: skip
        if self.data_wait.agrees is not False and self.ckpt.agrees is not False:
            return None
        who = f" ({', '.join(self.differing)})" if self.differing else ""
        return (
            f"stacks and hook do not agree{who}: a loader or a save that the hook does not know, "
            "or waits too short for ten looks a second"
        )

    def to_dict(self) -> dict[str, Any]:
        """``coverage.stack_check`` of the report."""
        return {
            "samples": self.samples,
            "ranks": self.ranks,
            "data_wait": self.data_wait.to_dict(),
            "ckpt": self.ckpt.to_dict(),
            "states": {name: round(share, _DIGITS) for name, share in self.states.items()},
            "text": self.text(),
            "note": self.note(),
        }


def check_stacks(picture: Picture) -> StackCheck | None:
    """None when too few stacks of ranks were seen to say anything."""
    seen = _seen(picture)
    timed = _timed(picture, seen)
    compared = timed if timed is not None and timed["samples"].sum() >= _FEWEST_SAMPLES else None
    base = compared if compared is not None else seen
    samples = int(base["samples"].sum())
    if samples < _FEWEST_SAMPLES:
        return None
    shares = {name: _share(base, name, compared is not None) for name in _COMPARED}
    return StackCheck(
        samples=samples,
        ranks=base.select("node", "pid").n_unique(),
        data_wait=shares["data_wait"],
        ckpt=shares["ckpt"],
        states={
            name: share for name in _STATES if (share := float(base[name].sum()) / samples) > 0
        },
        differing=_differing(compared) if compared is not None else (),
        stands=picture.by_stacks is not None
        and picture.is_hookless
        and not picture.by_stacks.refusal,
    )


def _part(name: str, share: Share) -> str:
    own = f"{_WORDS[name]} {share.value:.1%} ({share.low:.1%} to {share.high:.1%})"
    return f"{own}, by the hook {share.hook:.1%}" if share.hook is not None else own


def _seen(picture: Picture) -> pl.DataFrame:
    """One row for each second of a rank: node pid rank from to samples and samples by state."""
    rows = (
        picture.tables.frame("stacks", _COLUMNS)
        .drop_nulls(["mono_ns", "pid", "state"])
        .filter(
            (pl.col("role") == "rank") & (pl.col("samples") > 0) & pl.col("state").is_in(_STATES)
        )
        .with_columns(pl.col("interval_ns").fill_null(NS).clip(1, 60 * NS))
    )
    passes = (pl.col("state") == "data_wait") & (pl.col("sub") == "epoch").fill_null(False)
    rows = rows.filter(~passes)
    return (
        rows.group_by("node", "pid", "mono_ns")
        .agg(
            pl.first("rank"),
            (pl.col("mono_ns").first() - pl.col("interval_ns").max()).alias("from"),
            pl.col("mono_ns").first().alias("to"),
            pl.col("samples").sum(),
            *(
                pl.col("samples").filter(pl.col("state") == name).sum().alias(name)
                for name in _STATES
            ),
        )
        .drop("mono_ns")
    )


def _timed(picture: Picture, seen: pl.DataFrame) -> pl.DataFrame | None:
    """The seconds that lie in a training window of the hook's, with hook_data_wait and hook_ckpt:
    what the hook timed in each, as a share of it."""
    processes = picture.timeline.processes
    if not processes or seen.is_empty():
        return None
    windows = pl.DataFrame(
        [(p.node, p.pid, p.proc, p.opens, p.closes) for p in processes],
        schema={"node": pl.String, "pid": pl.Int32, "proc": pl.Int32, "opens": pl.Int64,
                "closes": pl.Int64},
        orient="row",
    )  # fmt: skip
    inside = (
        seen.with_columns(pl.col("node").cast(pl.String))
        .join(windows, on=["node", "pid"])
        .filter((pl.col("from") >= pl.col("opens")) & (pl.col("to") <= pl.col("closes")))
    )
    if inside.is_empty():
        return None
    rows, stretches = picture.timeline.rows, picture.timeline.stretches
    waits = rows.select("proc", "start", "end")
    saves = stretches.filter(pl.col("kind") == "ckpt").select("proc", "start", "end")
    # The hook knows nothing of what its ring lost, and an evaluation's waits are not training's.
    dark = stretches.filter(pl.col("kind").is_in(["gap", "eval", "load"])).select(
        "proc", "start", "end"
    )
    for name, spans in (("hook_data_wait", waits), ("hook_ckpt", saves), ("dark", dark)):
        inside = _with_share(inside, spans, name)
    return inside.filter(pl.col("dark") == 0).drop("dark")


def _with_share(seconds: pl.DataFrame, spans: pl.DataFrame, name: str) -> pl.DataFrame:
    """Add `name`: the share of from..to that the disjoint `spans` of the process cover."""
    length = pl.col("end") - pl.col("start")
    ordered = spans.sort("proc", "start").with_columns(
        (length.cum_sum().over("proc") - length).alias("before")
    )
    for edge in ("from", "to"):
        seconds = seconds.sort(edge).join_asof(
            ordered.sort("start"), left_on=edge, right_on="start", by="proc", strategy="backward",
            check_sortedness=False,
        )  # fmt: skip
        covered = (
            pl.col("before") + pl.min_horizontal(pl.col(edge), pl.col("end")) - pl.col("start")
        )
        seconds = seconds.with_columns(covered.fill_null(0).alias(f"till_{edge}")).drop(
            "start", "end", "before", strict=False
        )
    share = (pl.col("till_to") - pl.col("till_from")) / (pl.col("to") - pl.col("from"))
    return seconds.with_columns(share.clip(0, 1).alias(name)).drop("till_from", "till_to")


def _share(base: pl.DataFrame, name: str, compared: bool) -> Share:
    samples = int(base["samples"].sum())
    hits = float(base[name].sum())
    low, high = wilson(hits / samples, samples / _SAMPLES_WORTH_ONE, _Z)
    hook = None
    if compared:
        weighted = base.select((pl.col(f"hook_{name}") * pl.col("samples")).sum()).item()
        hook = float(weighted) / samples
    return Share(hits / samples, low, high, hook)


def _differing(timed: pl.DataFrame) -> tuple[str, ...]:
    """Ranks whose own shares disagree, at most four."""
    found = []
    for _, one in timed.sort("node", "pid").group_by("node", "pid", maintain_order=True):
        if one["samples"].sum() < _FEWEST_SAMPLES:
            continue
        if any(_share(one, name, True).agrees is False for name in _COMPARED):
            rank = one["rank"][0]
            found.append(f"rank {rank}" if rank is not None else f"process {one['pid'][0]}")
    return tuple(found[:4])
