"""The table ``log`` as stretches of steps: from when to when, how many, how long.

A job may print in several ways at once (DeepSpeed's timer beside Megatron's line, a bar beside
both) and into several files. Each way is a series of its own; the one that covers most time speaks
for the job. Left out: warm-up, lines of unknown age (in the file before the sampler saw it), and
whatever is no training step.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from slurm_io.analysis.facts import whole
from slurm_io.analysis.inputs import Tables

NS = 1_000_000_000
_COLUMNS = (
    "ts_ns", "source", "step", "step_time_s", "samples_per_s", "tokens_per_s", "detail",
)  # fmt: skip
_MOST_ROWS = 10_000
_CLOCK_STRETCH_S = 20.0  # a bar's clock counts whole seconds: 5 % of this
_LONGEST_STEP_S = 86_400.0
_LONGEST_S = 366 * 86_400.0
_LARGEST = 2.0**53


@dataclass(frozen=True)
class Stretch:
    """Some steps that followed one another. `until_ns`: UTC, when they had been printed."""

    until_ns: int
    steps: int
    seconds: float

    @property
    def since_ns(self) -> int:
        """UTC, about when they began."""
        return self.until_ns - round(self.seconds * NS)

    @property
    def step_s(self) -> float:
        """Mean of one step."""
        return self.seconds / self.steps


@dataclass(frozen=True)
class LogSeries:
    """One way in which one file tells of steps.

    `unit`: "step" or "batch". `with_saves`: whether its times contain saves and evaluations.
    `is_mean`: stretches are true means of all their steps, not samples or smoothed. `is_stamped`:
    times are those of the lines themselves; else of the look that found them, up to 10 s later.
    Rates are means over the rows; `data_wait_share`: share of the step time, where lines tell.
    """

    source: str
    node: str
    unit: str
    with_saves: bool
    is_mean: bool
    is_stamped: bool
    stretches: tuple[Stretch, ...]
    samples_per_s: float | None
    tokens_per_s: float | None
    tokens_base: str | None
    data_wait_share: float | None

    @property
    def steps(self) -> int:
        """Steps that its times cover."""
        return sum(one.steps for one in self.stretches)

    @property
    def seconds(self) -> float:
        """Their time together."""
        return sum(one.seconds for one in self.stretches)

    @property
    def mean_s(self) -> float:
        """Mean step time."""
        return self.seconds / self.steps

    @property
    def p50_s(self) -> float:
        """Median step time; of stretches longer than one step, each step counts with the mean."""
        ordered = sorted(self.stretches, key=lambda one: one.step_s)
        half, passed = self.steps / 2, 0
        for one in ordered:
            passed += one.steps
            if passed >= half:
                return one.step_s
        return ordered[-1].step_s


@dataclass(frozen=True)
class _Row:
    """One row; of a long log it stands for `weight` of them."""

    weight: int
    ts_ns: int
    node: str
    source: str
    step: int | None
    step_time_s: float | None
    samples_per_s: float | None
    tokens_per_s: float | None
    detail: Mapping[str, Any]

    def number(self, name: str) -> float | None:
        """A value of the detail, if it is a number that a count or a time can be."""
        value = self.detail.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return float(value) if 0 <= value <= _LARGEST else None

    def text(self, name: str) -> str:
        """A value of the detail, if it is text."""
        value = self.detail.get(name)
        return value if isinstance(value, str) else ""


def main_series(tables: Tables) -> LogSeries | None:
    """The series that covers most time; None when the log told of no steps."""
    groups: dict[tuple[object, ...], list[_Row]] = {}
    for row in _rows(tables):
        kind = row.text("kind")
        if kind in ("step", "progress"):
            total = row.number("total_steps") if kind == "progress" else None
            key = (row.node, row.number("file"), row.source, kind, total)
            groups.setdefault(key, []).append(row)
    found = [series for rows in groups.values() if (series := _series(rows)) is not None]
    return max(found, key=lambda one: one.seconds, default=None)


def _rows(tables: Tables) -> Iterable[_Row]:
    """Rows with a readable detail, by time; of very many every so many-th."""
    frame = tables.frame("log", _COLUMNS).drop_nulls(["ts_ns", "source", "detail"])
    frame = frame.sort("ts_ns", "step", maintain_order=True)
    every = -(-frame.height // _MOST_ROWS)
    for row in frame.gather_every(every).iter_rows(named=True) if every else ():
        try:
            detail = json.loads(row["detail"])
        except (ValueError, RecursionError):
            continue
        if isinstance(detail, dict) and whole(row["ts_ns"]) is not None:
            yield _Row(
                every, row["ts_ns"], str(row["node"]), row["source"], row["step"],
                _positive(row["step_time_s"]), _positive(row["samples_per_s"]),
                _positive(row["tokens_per_s"]), detail,
            )  # fmt: skip


def _positive(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value > 0 else None


def _series(rows: list[_Row]) -> LogSeries | None:
    by_clock = _by_own_clock(rows)
    stretches = by_clock or _by_step_time(rows)
    if not stretches:
        return None
    first, last = rows[0], rows[-1]
    timed = [row for row in rows if not row.detail.get("warmup") and not row.detail.get("early")]
    bases = {row.text("tokens_base") for row in timed} - {""}
    base = bases.pop() if len(bases) == 1 else None
    return LogSeries(
        source=first.source,
        node=first.node,
        unit="batch" if last.text("unit") == "batch" else "step",
        with_saves=last.text("saves") != "excluded",
        is_mean=bool(by_clock) or last.text("basis") in ("interval", "stamps"),
        is_stamped=all(row.text("clock") == "stamp" for row in rows),
        stretches=tuple(stretches),
        samples_per_s=_mean([row.samples_per_s for row in timed]),
        tokens_per_s=_mean([row.tokens_per_s for row in timed]) if base else None,
        tokens_base=base,
        data_wait_share=_data_wait_share(timed),
    )


def _by_own_clock(rows: list[_Row]) -> list[Stretch]:
    """From the counts and clocks of bars and of running means: nothing between is left out."""
    found: list[Stretch] = []
    steps, seconds = 0, 0.0
    for before, now in pairwise(rows):
        counts = before.number("elapsed_steps"), now.number("elapsed_steps")
        clocks = before.number("elapsed_s"), now.number("elapsed_s")
        same = all(before.number(name) == now.number(name) for name in ("run", "epoch"))
        if not same or None in counts or None in clocks or before.detail.get("early"):
            steps, seconds = 0, 0.0
            continue
        steps += int(counts[1] - counts[0])  # type: ignore[operator]
        seconds += clocks[1] - clocks[0]  # type: ignore[operator]
        if seconds > _LONGEST_S or steps < 0 or seconds < 0:
            steps, seconds = 0, 0.0
        elif steps > 0 and seconds >= _CLOCK_STRETCH_S:
            found.append(Stretch(now.ts_ns, steps, seconds))
            steps, seconds = 0, 0.0
    return found


def _by_step_time(rows: list[_Row]) -> list[Stretch]:
    """From the printed step times, each for the steps since the line before."""
    found = []
    counted = 0.0
    for row in rows:
        before, counted = counted, row.number("elapsed_steps") or 0.0
        if row.step_time_s is None or row.step_time_s > _LONGEST_STEP_S:
            continue
        if row.detail.get("warmup") or row.detail.get("early"):
            continue
        steps = row.weight * max(1, int(row.number("interval_steps") or counted - before))
        if row.step_time_s * steps <= _LONGEST_S:
            found.append(Stretch(row.ts_ns, steps, row.step_time_s * steps))
    return found


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _data_wait_share(rows: list[_Row]) -> float | None:
    pairs = [
        (wait, row.step_time_s)
        for row in rows
        if (wait := row.number("data_wait_s")) is not None and row.step_time_s is not None
    ]
    whole = sum(step_s for _wait, step_s in pairs)
    return min(1.0, sum(wait for wait, _step in pairs) / whole) if whole > 0 else None
