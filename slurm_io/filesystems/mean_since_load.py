"""The mean of one interval out of means that cover the time since a client was loaded.

Weka and Ceph show "operations so far" and "mean time of all of them", rounded to a whole step (a
microsecond). The total time of n operations is then known to half a step times n only: after 10^8
operations a difference of two totals says nothing about the 1000 of the last second. Such a mean is
unknown, and :func:`interval_mean_ns` says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

LARGEST_ERROR_SHARE = 0.2
HARMLESS_ERROR_NS = 50_000


class MeanSoFar(NamedTuple):
    """`step_ns` is what the mean is rounded to: 1000 for whole µs."""

    ops: int
    mean_ns: int
    step_ns: int


def interval_mean_ns(
    pairs: Iterable[tuple[MeanSoFar, MeanSoFar]], drift_ns: float = 0.0
) -> float | None:
    """Mean over the operations between (before, now), all pairs together.

    A counter that did not move brings no error either. `drift_ns` is what the client's own way of
    keeping a mean may cost in any interval. None without a completed operation, and when the error
    may be more than a fifth of the mean and more than 0.05 ms.
    """
    time_ns, slack_ns, ops = 0, 0.0, 0
    for before, now in pairs:
        if now.ops == before.ops:
            continue
        ops += now.ops - before.ops
        time_ns += now.ops * now.mean_ns - before.ops * before.mean_ns
        slack_ns += (now.ops * now.step_ns + before.ops * before.step_ns) / 2
    if ops <= 0:
        return None
    mean_ns, error_ns = time_ns / ops, slack_ns / ops + drift_ns
    if error_ns > max(HARMLESS_ERROR_NS, LARGEST_ERROR_SHARE * mean_ns):
        return None
    return max(0.0, mean_ns)
