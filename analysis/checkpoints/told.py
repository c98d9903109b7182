"""``checkpoints`` of the report, and the lines of it that people read.

``{count, failed, mount, blocking, background, bytes, writers, rate, interval, interference,
lines}``; times in seconds, shares of what their ``base`` says; `bytes`: of one checkpoint. What is
not known is null with a reason.
"""

from __future__ import annotations

from statistics import median
from typing import Any

from slurm_io.analysis.checkpoints.advice import Advice, Option
from slurm_io.analysis.checkpoints.interference import Interference
from slurm_io.analysis.checkpoints.seen import Checkpointing
from slurm_io.analysis.checkpoints.written import Rate, Written
from slurm_io.analysis.plain_words import count_of
from slurm_io.analysis.thresholds import Saves as Limits
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.analysis.timeline import Timeline

_MOST_RANKS = 64


def checkpoints_report(
    found: Checkpointing, timeline: Timeline, thresholds: Thresholds
) -> dict[str, Any]:
    """As the report holds it."""
    costs = [one.blocking_s for one in found.saves]
    behind = [one.background_s for one in found.saves if one.background_s is not None]
    sizes = [one.bytes for one in found.saves if one.bytes is not None]
    return {
        "count": len(found.saves),
        "failed": sum(one.failed for one in found.saves),
        "mount": found.mount,
        "blocking": {
            "median_s": _r(median(costs)),
            "longest_s": _r(max(costs)),
            "share": _r(found.share, 6),
            "base": "training GPU-seconds",
        },
        "background": {
            "saves": len(behind),
            "median_s": _r(median(behind)) if behind else None,
            "longest_s": _r(max(behind)) if behind else None,
            "late": sum(one.late for one in found.saves),
            "reason": None if behind else "nothing was written beside training",
        },
        "bytes": round(median(sizes)) if sizes else None,
        "writers": _writers(found.written, timeline),
        "rate": _rate(found.rate),
        "interval": _interval(found.advice),
        "interference": _interference(found.interference, found.disturbance),
        "lines": lines_of(found, thresholds),
    }


def _writers(written: Written, timeline: Timeline) -> dict[str, Any]:
    told = [
        {"rank": timeline.by_proc[proc].rank, "node": str(timeline.by_proc[proc].node),
         "bytes": size}
        for proc, size in sorted(written.by_proc.items())
    ]  # fmt: skip
    return {
        "kind": written.kind,
        "ranks_writing": len(told) if written.kind is not None else None,
        "ranks": len(timeline.processes),
        "bytes": written.bytes,
        "source": written.source,
        "reason": written.reason,
        "by_rank": told[:_MOST_RANKS],
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {
        "achieved_bytes_per_s": _whole(rate.achieved),
        "possible_bytes_per_s": _whole(rate.possible),
        "possible_base": rate.base,
        "share": _r(rate.share, 4),
        "reason": rate.reason,
    }


def _interval(advice: Advice) -> dict[str, Any]:
    return {
        "cost_s": _r(advice.cost_s),
        "cost_low_s": _r(advice.cost_low_s),
        "cost_high_s": _r(advice.cost_high_s),
        "now_s": _r(advice.interval_s),
        "now_steps": advice.interval_steps,
        "saving_share": _r(advice.saving_share, 6),
        "saving_base": "time from save to save",
        "mtbf_base": advice.mtbf_base,
        "options": [_option(one) for one in advice.options],
        "change_to_s": _r(advice.change_s),
        "reason": advice.reason,
    }


def _option(one: Option) -> dict[str, Any]:
    return {
        "mtbf_s": _r(one.best.mtbf_s),
        "young_s": _r(one.best.young_s),
        "daly_s": _r(one.best.daly_s),
        "interval_s": _r(one.best.interval_s),
        "saving_share": _r(one.best.saving_share, 6),
        "lost_share": _r(one.best.lost_share, 6),
        "now_lost_share": _r(one.now_lost_share, 6),
        "lost_base": "all time",
    }


def _interference(found: Interference, disturbance: float | None) -> dict[str, Any]:
    return {
        "node": found.node,
        "cycles": found.cycles,
        "wait_share_during": _r(found.during, 6),
        "wait_share_outside": _r(found.outside, 6),
        "wait_base": "seconds of training on that node",
        "p": _r(found.p, 4),
        "disturbance": _r(disturbance, 6),
        "reason": found.reason,
    }


def lines_of(found: Checkpointing, thresholds: Thresholds) -> list[str]:
    """At most four, each a sentence."""
    lines = [_what(found), *_speed(found, thresholds)]
    told = (interval_text(found.advice, thresholds.saves), disturbance_text(found))
    lines += [text for text in told if text]
    return lines


def _what(found: Checkpointing) -> str:
    costs = [one.blocking_s for one in found.saves]
    behind = [one.background_s for one in found.saves if one.background_s is not None]
    kind = found.written.kind
    who = f", {kind}" if kind is not None and kind != "one process" else ""
    stood = f"training stood {length(median(costs))} for each"
    held = stood if any(costs) else "nothing held training up"
    text = f"{count_of(len(costs), 'save')}{who}: {held}"
    if behind:
        text += f", {length(median(behind))} written beside it"
        late = sum(one.late for one in found.saves)
        text += f" ({late} still when the next began)" if late else ""
    every = found.advice.interval_s
    if every is not None and found.advice.saving_share:
        text += (
            f"; every {length(every)}, {found.advice.saving_share:.1%} of the time from save to "
            "save"
        )
    return text


def _speed(found: Checkpointing, thresholds: Thresholds) -> list[str]:
    text = rate_text(found)
    return [text] if text is not None and is_slow(found, thresholds) else []


def is_slow(found: Checkpointing, thresholds: Thresholds) -> bool:
    """Whether saves of some size were written far below what was possible."""
    limits, share, size = thresholds.saves, found.rate.share, found.written.bytes
    large = size is not None and size >= limits.least_bytes * len(found.saves)
    return large and share is not None and share < limits.slow_share


def rate_text(found: Checkpointing) -> str | None:
    """What was reached of what was possible, with its base."""
    rate = found.rate
    if rate.achieved is None or rate.possible is None or rate.share is None:
        return None
    reached = (
        f"{rate.share:.0%} of" if rate.share <= 1 else "more (the page cache took it) than"
    )  # fmt: skip
    return f"written at {speed(rate.achieved)}, {reached} {speed(rate.possible)}: {rate.base}"


def interval_text(advice: Advice, limits: Limits) -> str | None:
    """The change advised with its base, or the table where no failure rate is known."""
    if advice.change_s is not None:
        one = advice.options[0]
        return (
            f"a save every {length(advice.change_s)} of training loses least "
            f"({one.best.lost_share:.1%} of all time, now {one.now_lost_share:.1%}), at "
            f"{advice.mtbf_base}"
        )
    if advice.mtbf_base is not None or not advice.options or advice.interval_s is None:
        return None
    if max(one.gain for one in advice.options) < limits.gain:
        return None
    best = _either([length(one.best.interval_s) for one in advice.options])
    failing = _either([length(one.best.mtbf_s) for one in advice.options])
    return f"a save every {best} loses least at one failure in {failing}"


def _either(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def disturbance_text(found: Checkpointing) -> str | None:
    """That writing beside training slows reading, where that is shown."""
    seen = found.interference
    if found.disturbance is None or seen.during is None or seen.outside is None:
        return None
    return (
        f"while a checkpoint is written beside it, training waits for data {seen.during:.1%} of "
        f"the time, else {seen.outside:.1%} ({seen.cycles} saves, p {seen.p:.3f})"
    )


def length(seconds: float) -> str:
    """For people: 250 ms, 12 s, 31 min, 5.2 h, 7 days."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.3g} h" if seconds < 48 * 3600 else f"{seconds / 86400:.3g} days"


def speed(rate: float) -> str:
    """For people, decimal units."""
    return f"{rate / 1e9:.1f} GB/s" if rate >= 1e9 else f"{rate / 1e6:.3g} MB/s"


def _r(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(float(value), digits)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
