"""The value of a checked expression for one job.

Series are read from the store's tables, only where the job trained (or was watched, see
:mod:`..watch`), and reckoned row by row by polars; nothing of the expression's text reaches it but
names and numbers that the grammar has checked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from slurm_io.analysis.host_rows import rows_between
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.site_rules import names
from slurm_io.analysis.site_rules.tree import Node
from slurm_io.analysis.site_rules.units import Unit
from slurm_io.store.schema import TABLES

_OPERATORS = {
    "+": pl.Expr.__add__, "-": pl.Expr.__sub__, "*": pl.Expr.__mul__, "<": pl.Expr.__lt__,
    "<=": pl.Expr.__le__, ">": pl.Expr.__gt__, ">=": pl.Expr.__ge__, "==": pl.Expr.__eq__,
    "!=": pl.Expr.__ne__,
}  # fmt: skip


class Unknown(Exception):
    """A value the expression needs is not known: the text says which, and why."""


@dataclass(frozen=True)
class Term:
    """A field, or a function over rows, with its value: what the finding's evidence shows."""

    text: str
    unit: Unit
    value: float


@dataclass
class Evaluator:
    """Values of expressions over one picture and its report. `terms`: what was looked up."""

    picture: Picture
    report: Mapping[str, Any]
    terms: list[Term] = field(default_factory=list)

    def value(self, node: Node) -> float:
        """A number; 1.0 and 0.0 for true and false.

        Raises:
            Unknown: something it needs is not known, or it divides by zero.
        """
        found = self._value(node)
        if not math.isfinite(found):
            raise Unknown(f"{node.text} is not a finite number")
        if node.kind in ("field", "aggregate", "share"):
            self.terms.append(Term(node.text, node.unit, found))
        return found

    def _value(self, node: Node) -> float:
        if node.kind == "number":
            return node.value
        if node.kind == "field":
            return self._field(node)
        if node.kind in ("aggregate", "share"):
            return self._of_rows(node)
        if node.kind in ("and", "or", "not"):
            return float(self._truth(node))
        parts = [self.value(one) for one in node.parts]
        if node.kind == "negative":
            return -parts[0]
        if node.kind == "convert":
            return parts[0] * node.value
        if node.kind == "choice":
            return max(parts) if node.op == "larger" else min(parts)
        return _reckoned(node, parts[0], parts[1])

    def _truth(self, node: Node) -> bool:
        """`and` and `or` look at the second only where the first does not decide."""
        if node.kind == "not":
            return not self.value(node.parts[0])
        decides = node.kind == "or"
        return (
            decides if any(bool(self.value(one)) is decides for one in node.parts) else not decides
        )

    def _field(self, node: Node) -> float:
        found: Any = self.report
        for key in names.fields()[node.text].path:
            found = found.get(key) if isinstance(found, Mapping) else None
        if isinstance(found, (list, tuple)):
            return float(len(found))
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            raise Unknown(f"{node.text} is not known of this job")
        return float(found)

    def _of_rows(self, node: Node) -> float:
        inner = node.parts[0]
        assert inner.table is not None
        rows, every = self._rows(inner, node)
        rows = rows.with_columns(_by_row(inner).alias("value")).drop_nulls("value")
        if rows.is_empty():
            raise Unknown(
                f"{node.text}: table {inner.table} has no rows of the training that tell it"
            )
        if node.kind == "share":
            return _share(rows)
        return _aggregate(node.op, rows["value"], every)

    def _rows(self, inner: Node, node: Node) -> tuple[pl.DataFrame, int]:
        table = inner.table or ""
        chosen = [name for name, _ in node.where]
        columns = sorted({*_columns(inner), *chosen})
        spans = self.picture.watch.spans
        if "interval_ns" in TABLES[table].column_names():
            read = rows_between(self.picture.tables, spans, table, columns)
            rows, every = read.rows, read.every
        else:
            raw = self.picture.tables.frame(table, ("mono_ns", *columns))
            placed = raw.with_columns(pl.col("node").cast(pl.String)).join(spans, on="node")
            at = pl.col("mono_ns")
            rows, every = placed.filter((at >= pl.col("opens")) & (at <= pl.col("closes"))), 1
        for name, wanted in node.where:
            rows = rows.filter(pl.col(name) == wanted)
        return rows, every


def _columns(node: Node) -> set[str]:
    """Columns of the table that a row's value is made of."""
    if node.kind == "series":
        return {node.text.partition(".")[2]}
    return {name for one in node.parts for name in _columns(one)}


def _by_row(node: Node) -> pl.Expr:
    """What a row's value is; null where something in it is null, or it divides by zero."""
    if node.kind == "number":
        return pl.lit(node.value)
    if node.kind == "series":
        column = pl.col(node.text.partition(".")[2])
        return column if node.is_truth else column.cast(pl.Float64)
    parts = [_by_row(one) for one in node.parts]
    if node.kind == "negative":
        return -parts[0]
    if node.kind == "convert":
        return parts[0] * node.value
    if node.kind == "not":
        return ~parts[0]
    if node.kind in ("and", "or"):
        joined = parts[0]
        for one in parts[1:]:
            joined = joined & one if node.kind == "and" else joined | one
        return joined
    if node.op == "/":
        return pl.when(parts[1] != 0).then(parts[0] / parts[1])
    made: pl.Expr = _OPERATORS[node.op](parts[0], parts[1])
    return made


def _share(rows: pl.DataFrame) -> float:
    """Of the time that rows cover; where they cover none (a row is a moment), of the rows."""
    weight = pl.col("interval_ns") if "interval_ns" in rows.columns else pl.lit(1)
    sums = rows.select(
        weight.filter(pl.col("value")).sum().alias("hit"),
        (weight.sum() if "interval_ns" in rows.columns else pl.len()).alias("all"),
    ).row(0)
    return float(sums[0] / sums[1])


def _aggregate(name: str, values: pl.Series, every: int) -> float:
    if name == "count":
        return float(values.len() * every)
    if name == "sum":
        return float(values.sum()) * every
    found: Any
    if name == "last":
        found = values[-1]
    elif name.startswith("p"):
        found = values.quantile(int(name[1:]) / 100, interpolation="linear")
    else:
        found = getattr(values, name)()
    return float(found)


def _reckoned(node: Node, left: float, right: float) -> float:
    """Of two single values."""
    if node.op == "/":
        if right == 0:
            raise Unknown(f"{node.text} divides by zero: {node.parts[1].text} is 0")
        return left / right
    simple = {"+": left + right, "-": left - right, "*": left * right}
    if node.op in simple:
        return simple[node.op]
    truths = {
        "<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right,
        "==": left == right, "!=": left != right,
    }  # fmt: skip
    return float(truths[node.op])
