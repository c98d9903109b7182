"""What the job's own log says of its steps, beside what the hook saw of the same stretch of time.

Two clocks that know nothing of each other: where they agree within 5 %, the report's step times
can be trusted; where they do not, it says so. Without a hook the log is all there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from slurm_io.analysis.log_series import LogSeries, main_series
from slurm_io.analysis.picture import Picture

AGREES_WITHIN = 0.05
_FEWEST_STEPS = 10
_MOST_IN_ONE = 128
_LATE_NS = 5_000_000_000  # lines without a stamp are found up to 10 s later
_SHORT_NS = 120_000_000_000


@dataclass(frozen=True)
class HookSteps:
    """The hook's steps in the log's stretch of time. `in_all`: of the whole training."""

    steps: int
    step_s: float
    in_all: int


@dataclass(frozen=True)
class LogCheck:
    """`step_s` is compared with the hook's: means with means, medians with medians.

    `in_one`: how many of the log's steps make one optimizer step of the hook's (1 unless they
    agree only so). `agrees` is None when there is nothing to compare with.
    """

    series: LogSeries
    step_s: float
    hook: HookSteps | None
    in_one: int
    agrees: bool | None

    def text(self) -> str:
        """One line for people."""
        own = f"steps by the job's own log: {_seconds(self.step_s)}"
        if self.hook is None:
            return f"{own} ({self.series.steps} steps, {self.series.source})"
        counts = f"({self.series.steps} of {self.hook.in_all * self.in_one} steps)"
        several = f", {self.in_one} of them in one of the hook's" if self.in_one > 1 else ""
        return f"{own}{several}, by the hook {_seconds(self.hook.step_s)} {counts}"

    def note(self) -> str | None:
        """What to make of a disagreement."""
        if self.hook is None or self.agrees is not False:
            return None
        more = self.step_s * self.in_one / self.hook.step_s - 1
        way = "longer" if more > 0 else "shorter"
        return (
            f"the log's steps are {abs(more):.0%} {way} than the hook's: it counts other steps, or "
            "leaves out time that the other has (saves, evaluations, waits between steps)"
        )

    def to_dict(self) -> dict[str, Any]:
        """``coverage.log`` of the report."""
        series = self.series
        return {
            "source": series.source,
            "steps": series.steps,
            "step_s": round(self.step_s, 6),
            "hook_steps": self.hook.steps if self.hook is not None else None,
            "hook_step_s": round(self.hook.step_s, 6) if self.hook is not None else None,
            "agrees": self.agrees,
            "samples_per_s": _rounded(series.samples_per_s),
            "tokens_per_s": _rounded(series.tokens_per_s),
            "tokens_base": series.tokens_base,
            "data_wait_share": _rounded(series.data_wait_share, 6),
            "text": self.text(),
            "note": self.note(),
        }


def check_log(picture: Picture) -> LogCheck | None:
    """None when the job's log told of no steps."""
    series = main_series(picture.tables)
    if series is None:
        return None
    hook = _hook_steps(picture, series)
    step_s = series.mean_s if _by_mean(series) else series.p50_s
    if hook is None:
        return LogCheck(series, step_s, None, 1, None)
    in_one = _in_one(hook.step_s / step_s)
    agrees = _is_near(step_s * in_one, hook.step_s)
    return LogCheck(series, step_s, hook, in_one if agrees else 1, agrees)


def time_by_log(check: LogCheck) -> dict[str, Any]:
    """What ``time`` of the report can have without a hook."""
    series = check.series
    return {
        "steps": series.steps,
        "step_p50_s": round(series.p50_s, 6),
        "throughput": round(1.0 / series.mean_s, 3),
        "source": f"job log ({series.source})",
    }


def _hook_steps(picture: Picture, series: LogSeries) -> HookSteps | None:
    """Steps of the unit that trained longest, begun within the log's stretch of time."""
    steps = picture.losses.unit_steps.filter(~pl.col("broken"))
    if steps.is_empty():
        return None
    sizes = steps.group_by("unit").len().sort("len", "unit", descending=[True, False])
    own = steps.filter(pl.col("unit") == sizes["unit"][0])
    first, last = _span_ns(series)
    late_ns = 0 if series.is_stamped else _LATE_NS
    inside = own.filter(pl.col("ts_ns").is_between(first - late_ns, last))
    if inside.height < _FEWEST_STEPS or series.steps < _FEWEST_STEPS:
        return None
    gross = pl.col("own_s") + pl.col("rest_s")
    times = inside.select(gross if series.with_saves else pl.col("net_s")).to_series()
    step_s = times.mean() if _by_mean(series) else times.median()
    if not isinstance(step_s, (int, float)) or step_s <= 0:
        return None
    return HookSteps(inside.height, float(step_s), own.height)


def _span_ns(series: LogSeries) -> tuple[int, int]:
    stretches = series.stretches
    return min(one.since_ns for one in stretches), max(one.until_ns for one in stretches)


def _by_mean(series: LogSeries) -> bool:
    """Means, where the log has them; in a short stretch a single slow step at its edge, seen by one
    of the two only, would make all the difference."""
    first, last = _span_ns(series)
    is_short = last - first < _SHORT_NS
    return series.is_mean and not (is_short and all(one.steps == 1 for one in series.stretches))


def _in_one(ratio: float) -> int:
    """Gradient accumulation: a whole number of the log's steps in one of the hook's."""
    whole = round(ratio)
    fits = 1 < whole <= _MOST_IN_ONE and abs(ratio / whole - 1) <= AGREES_WITHIN
    return whole if fits else 1


def _is_near(one: float, other: float) -> bool:
    return abs(one / other - 1) <= AGREES_WITHIN


def _seconds(value: float) -> str:
    return f"{value:.3f} s" if value >= 0.1 else f"{value * 1000:.2f} ms"


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)
