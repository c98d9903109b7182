"""A bar as a reading: what all forms with bars share."""

from __future__ import annotations

import re

from slurm_io.joblog.figures import ratio, step_time
from slurm_io.joblog.model import Bar, Reading

_EPOCH = re.compile(r"Epoch[: ]*\[?([0-9]{1,7})\]?(?: ?/ ?[0-9]{1,7})?.{0,40}", re.ASCII)


def epoch_of(bar: Bar) -> int | None:
    """k of a bar called ``Epoch k`` or ``Epoch k/K``."""
    found = _EPOCH.fullmatch(bar.description)
    return int(found[1]) if found is not None else None


def progress(
    bar: Bar, step: int | None, step_time_s: float | None = None, **detail: object
) -> Reading:
    """A "progress" reading. `step_time_s`: what the bar prints beside its smoothed rate.

    ``elapsed_s`` and ``elapsed_steps`` are the bar's own clock, in whole seconds since it began:
    between two of its states they give the true mean, saves and evaluations included.
    """
    mean_s = ratio(bar.elapsed_s, bar.n)
    rate_s = step_time(bar.rate)
    values = {
        "total_steps": bar.total,
        "basis": "step" if step_time_s is not None else "smoothed" if rate_s else None,
        "saves": "included",
        "elapsed_s": bar.elapsed_s,
        "elapsed_steps": bar.n,
        "mean_s": round(mean_s, 9) if mean_s else None,
        **detail,
    }
    known = {name: value for name, value in values.items() if value is not None}
    return Reading("progress", step, rate_s if step_time_s is None else step_time_s, detail=known)
