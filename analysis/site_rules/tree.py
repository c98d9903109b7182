"""The checked tree of an expression, the functions there are, and the one error."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_io.analysis.site_rules.units import Unit
from slurm_io.errors import UsageError

MOST_CHARS, MOST_NODES, MOST_DEPTH = 500, 100, 12
MOST_NUMBER = 1e18
AGGREGATES = {
    "mean": "the mean", "min": "the least", "max": "the most", "sum": "the sum",
    "p50": "the median", "p95": "the 95th percentile", "p99": "the 99th percentile",
    "last": "the last known value", "count": "how many rows tell it",
}  # fmt: skip
SHARE = "share_of_time"
SCALARS = {"larger": "the larger of two", "smaller": "the smaller of two"}
CONVERSIONS = {"base_unit": "the same in s, B, or as a share: ms, ns, kB, MiB, % are converted"}
FUNCTIONS = {
    **AGGREGATES, SHARE: "the share of time in which a comparison of series is true",
    **SCALARS, **CONVERSIONS,
}  # fmt: skip


class ExpressionError(UsageError):
    """An expression that is none, in one line."""


@dataclass(frozen=True)
class Node:
    """One part of an expression.

    `kind`: number, field, series, binary, negative, compare, and, or, not, aggregate, share,
    choice, convert; `op`: which of them. `table`: of a series, and of what is made of series row by
    row; None = one value. `is_truth`: true or false, no number. `where`: (column, value) that rows
    are chosen by.
    """

    kind: str
    text: str
    unit: Unit
    parts: tuple[Node, ...] = ()
    value: float = 0.0
    table: str | None = None
    is_truth: bool = False
    where: tuple[tuple[str, str | int], ...] = ()
    op: str = ""

    @property
    def is_constant(self) -> bool:
        """Made of bare numbers only."""
        return self.kind == "number" or (
            self.kind in ("binary", "negative") and all(one.is_constant for one in self.parts)
        )
