"""The figures that are compared, and what may stand in the way of comparing each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from slurm_io.analysis.compare import difference, noise
from slurm_io.analysis.compare.side import Side

Unit = Literal["s", "ms", "share"]
_SAME_WORK = 0.01
_Z95 = 1.96  # the report's ranges are 95 % intervals, and wider where GPU work may hide a wait
_SHARES = (
    ("data", "waiting for data, whatever the cause"),
    ("storage", "waiting for reads from storage"),
    ("ckpt", "blocking checkpoints"),
)


@dataclass(frozen=True)
class Figure:
    """One figure of both runs. `rows_a`, `rows_b`: y, x, progress for a mean or a share; with
    `level` a quantile of y. `why` is not empty where it cannot be compared. `base`: of what.
    `more_error`: standard errors that no slice of the run shows, of A and of B.
    """

    name: str
    label: str
    unit: Unit
    base: str
    rows_a: pl.DataFrame | None
    rows_b: pl.DataFrame | None
    level: float | None = None
    why: str = ""
    more_error: tuple[float, float] = (0.0, 0.0)

    @property
    def relative(self) -> bool:
        """Times differ by a share of A, shares by points."""
        return self.unit != "share"


@dataclass(frozen=True)
class Judged:
    """A figure after the test. `why` says why there is no `difference`."""

    figure: Figure
    a: float | None
    b: float | None
    difference: difference.Difference | None
    why: str


def figures_of(a: Side, b: Side) -> list[Figure]:
    """All figures, the one that decides first."""
    steps_a, steps_b, base, clocks = _same_clock(a, b)
    work = clocks or _same_work(a, b)
    found = []
    if work and not clocks and a.items and b.items:
        rows = (_mean(steps_a, a.items), _mean(steps_b, b.items))
        found.append(Figure("item_mean", "time per item of a rank", "s", base, *rows))
    found += [
        Figure("step_mean", "mean step", "s", base, _mean(steps_a), _mean(steps_b), None, work),
        Figure("step_p50", "median step", "s", base, _net(steps_a), _net(steps_b), 0.5, work),
        Figure("step_p99", "P99 of a step", "s", base, _net(steps_a), _net(steps_b), 0.99, work),
    ]
    return [*found, *_shares(a, b), *_latencies(a, b)]


def judge(figures: list[Figure], confidence: float) -> list[Judged]:
    """Test all; `confidence` holds for all of them together (Bonferroni)."""
    ready = [(figure, *_estimates(figure)) for figure in figures]
    tested = sum(not why for _figure, _a, _b, why in ready)
    alpha = (1 - confidence) / max(1, tested)
    return [_judged(figure, a, b, why, alpha) for figure, a, b, why in ready]


Estimate = noise.Noisy | None


def _estimates(figure: Figure) -> tuple[Estimate, Estimate, str]:
    """Both values with their noise; a reason where it cannot be compared."""
    found: list[Estimate] = []
    whys = [figure.why] if figure.why else []
    for name, rows in (("A", figure.rows_a), ("B", figure.rows_b)):
        if rows is None:
            found.append(None)
            whys.append(f"not known of {name}")
            continue
        told = noise.ratio(rows) if figure.level is None else _middle(rows, figure.level)
        if isinstance(told, str):
            plain = noise.Noisy(_plain(rows, figure.level), 0.0, 0, 0)
            found.append(plain if rows.height else None)
            whys.append(f"{name} is {told}" if told.startswith("too short") else f"{name}: {told}")
        else:
            more = figure.more_error["AB".index(name)]
            found.append(replace(told, error=math.hypot(told.error, more)))
    both = [each for each in found if each is not None]
    if not whys and all(each.value == 0 and each.error == 0 for each in both):
        whys.append("none of it in either run")
    if not whys and max(each.events for each in both) < noise.FEWEST_EVENTS:
        whys.append(f"fewer than {noise.FEWEST_EVENTS} steps of either run have any of it")
    return found[0], found[1], whys[0] if whys else ""


def _middle(rows: pl.DataFrame, level: float) -> noise.Noisy | str:
    told = noise.quantile(rows["y"], rows["progress"], level, 0.5)
    if isinstance(told, str):
        return told
    return noise.Noisy(told.value, 0.0, told.slices, rows.height)


def _plain(rows: pl.DataFrame, level: float | None) -> float:
    if level is not None:
        return float(rows["y"].quantile(level, "linear") or 0.0)
    whole = float(rows["x"].sum())
    return float(rows["y"].sum()) / whole if whole > 0 else 0.0


def _judged(figure: Figure, a: Estimate, b: Estimate, why: str, alpha: float) -> Judged:
    values = (None if a is None else a.value, None if b is None else b.value)
    if why or a is None or b is None:
        return Judged(figure, *values, None, why)
    if figure.level is None:
        told = difference.of_means(a, b, figure.relative, alpha)
    else:
        told = _by_quantiles(figure, figure.level, alpha)
    return Judged(figure, *values, *((None, told) if isinstance(told, str) else (told, "")))


def _by_quantiles(figure: Figure, level: float, alpha: float) -> difference.Difference | str:
    sides = []
    for rows in (figure.rows_a, figure.rows_b):
        assert rows is not None
        told = noise.quantile(rows["y"], rows["progress"], level, alpha)
        if isinstance(told, str):
            return told
        sides.append(told)
    return difference.of_quantiles(sides[0], sides[1], alpha)


def _same_clock(a: Side, b: Side) -> tuple[pl.DataFrame | None, pl.DataFrame | None, str, str]:
    """Steps of both by the same clock, which one, and a reason where there is none."""
    if a.hook is not None and b.hook is not None:
        return a.hook, b.hook, "steps by the hook", ""
    if a.log is not None and b.log is not None and a.log_source == b.log_source:
        return a.log, b.log, f"steps by the job's log ({a.log_source})", ""
    clocks = [_clock(a), _clock(b)]
    steps = (_steps(a), _steps(b))
    if None in clocks:
        return (
            *steps,
            "steps",
            "neither hook nor log told of steps in "
            + " and ".join(name for name, clock in zip("AB", clocks, strict=True) if clock is None),
        )
    return *steps, "steps", f"different bases: steps by {clocks[0]} in A, by {clocks[1]} in B"


def _steps(side: Side) -> pl.DataFrame | None:
    return side.hook if side.hook is not None else side.log


def _clock(side: Side) -> str | None:
    if side.hook is not None:
        return "the hook"
    return None if side.log is None else f"the job's log ({side.log_source})"


def _same_work(a: Side, b: Side) -> str:
    """A reason where a step of A is not the work of a step of B."""
    if a.hook is None or b.hook is None:
        return ""
    if a.is_stepped != b.is_stepped:
        steps = ["optimizer steps" if side.is_stepped else "batches" for side in (a, b)]
        return f"different bases: steps are {steps[0]} in A, {steps[1]} in B"
    sizes = (a.settings.batch_sizes, b.settings.batch_sizes)
    if all(sizes) and sizes[0] != sizes[1]:
        told = ["/".join(map(str, sorted(each))) for each in sizes]
        return f"a step is other work: batch size {told[0]} in A, {told[1]} in B"
    counts = (a.batches_a_step or 1.0, b.batches_a_step or 1.0)
    if abs(counts[0] / counts[1] - 1) > _SAME_WORK:
        return f"a step is other work: {counts[0]:.3g} batches in A, {counts[1]:.3g} in B"
    return ""


def _mean(steps: pl.DataFrame | None, items: float = 1.0) -> pl.DataFrame | None:
    if steps is None:
        return None
    return steps.select(y="t", x=pl.col("n") * items, progress="progress")


def _net(steps: pl.DataFrame | None) -> pl.DataFrame | None:
    if steps is None or bool((steps["n"] != 1).any()):
        return None
    return steps.select(y="net", x="n", progress="progress")


def _shares(a: Side, b: Side) -> list[Figure]:
    lacking = [name for name, side in (("A", a), ("B", b)) if side.hook is None]
    why = f"no hook timed batches in {' and '.join(lacking)}" if lacking else ""
    return [
        Figure(
            f"{name}_share", label, "share", "training GPU time",
            _share(a.hook, name), _share(b.hook, name), None, why,
            # Which waits were storage's is known from samples, or not: in common to all slices.
            (a.storage_off / _Z95, b.storage_off / _Z95) if name == "storage" else (0.0, 0.0),
        )
        for name, label in _SHARES
    ]  # fmt: skip


def _share(steps: pl.DataFrame | None, name: str) -> pl.DataFrame | None:
    if steps is None:
        return None
    weight = pl.col("weight")
    return steps.select(y=pl.col(name) * weight, x=pl.col("t") * weight, progress="progress")


def _latencies(a: Side, b: Side) -> list[Figure]:
    """One for each source that both have, of the mount they waited for most."""
    found: list[Figure] = []
    for mine in a.latencies:
        others = [one for one in b.latencies if one.source == mine.source]
        same = [one for one in others if one.mount == mine.mount] or others
        if not same or any(figure.base == mine.source for figure in found):
            continue
        where = mine.mount if same[0].mount == mine.mount else f"{mine.mount}, {same[0].mount}"
        found.append(
            Figure(
                "read_latency", f"read latency of {where}", "ms", mine.source,
                mine.rows, same[0].rows,
            )
        )  # fmt: skip
    if not found and (a.latencies or b.latencies):
        first, other = (side.latencies[0] if side.latencies else None for side in (a, b))
        told = [one.source if one is not None else "none told one" for one in (first, other)]
        found.append(
            Figure(
                "read_latency", "read latency", "ms", "the mount waited for most",
                first.rows if first else None, other.rows if other else None,
                why=f"different bases: {told[0]} in A, {told[1]} in B",
            )
        )  # fmt: skip
    return found
