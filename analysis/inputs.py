"""What the analysis reads: a job's store, seen as polars frames.

The analysis looks at a store and at nothing else, so that a store from another site can be judged.
:class:`Tables` turns a table into a frame that always has the columns asked for, also when the
table is missing, empty, or was written by an older version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import polars as pl

from slurm_io.errors import StoreError
from slurm_io.model import JobIdentity
from slurm_io.store.schema import TABLES

_POLARS_TYPES: dict[str, pl.DataType] = {
    "int64": pl.Int64(),
    "int32": pl.Int32(),
    "float64": pl.Float64(),
    "float32": pl.Float32(),
    "string": pl.String(),
    "bool": pl.Boolean(),
}


# Which rows of a node are wanted: (node, its rows' mono_ns and interval_ns) -> a truth value each.
Keep = Callable[[str, pl.DataFrame], pl.Series]


class NodeView(Protocol):
    """One node's folder of a job store (:class:`slurm_io.store.reader.NodeStore` is one)."""

    @property
    def node(self) -> str: ...
    @property
    def meta(self) -> dict[str, Any]: ...
    @property
    def self_cost(self) -> dict[str, Any] | None: ...
    @property
    def checks(self) -> dict[str, Any] | None: ...
    @property
    def damage(self) -> list[dict[str, Any]]: ...

    def table(self, name: str, columns: Sequence[str] | None = None, every: int = 1) -> Any:
        """The table as a pyarrow.Table, the clocks and `columns` of it.

        Of the seconds that are no multiple of `every` it may leave the rows out.
        """


class StoreView(Protocol):
    """A whole job store (:class:`slurm_io.store.reader.JobStore` is one)."""

    @property
    def job(self) -> JobIdentity | None: ...
    @property
    def nodes(self) -> Mapping[str, NodeView]: ...
    @property
    def nodes_expected(self) -> Sequence[str]: ...
    @property
    def extra(self) -> dict[str, Any]: ...
    @property
    def checkpoints(self) -> Mapping[str, Any] | None:
        """``checkpoints.json``; None when nobody looked at what the job saved."""


@runtime_checkable
class CompactedView(Protocol):
    """A store that reads many nodes in one pass."""

    def together(
        self, name: str, columns: Sequence[str] | None = None, every: int = 1
    ) -> Iterator[tuple[str, Any]]:
        """(node, its table) of those nodes; others have to be asked one by one."""


@dataclass
class Tables:
    """Reads tables of a store; what could not be read is noted in `damage` as (what, why).

    `kept`: results that are dear to compute and asked for more than once, by name. `clocks_ns`:
    what to add to the UTC times of a node whose clock is known to be off.
    """

    store: StoreView
    damage: list[tuple[str, str]] = field(default_factory=list)
    kept: dict[str, tuple[object, Any]] = field(default_factory=dict, repr=False)
    clocks_ns: dict[str, int] = field(default_factory=dict)

    def frame(
        self, table: str, columns: Sequence[str], every: int = 1, keep: Keep | None = None
    ) -> pl.DataFrame:
        """`columns` of `table` over all nodes, with a ``node`` column in front.

        Missing columns are null, wrong types are cast or become null: a damaged part costs its
        own values and nothing else. `every` keeps the rows of each so many-th second of the
        node's clock only; `columns` must have ``mono_ns`` then. `keep`: which of a node's rows are
        wanted; `columns` must have ``mono_ns`` and ``interval_ns`` then.
        """
        names = pl.Enum(sorted(self.store.nodes))
        parts = self._together(table, columns, every, keep)
        for name, view in self.store.nodes.items():
            if name not in parts:
                parts[name] = self._of_node(view, table, columns, every, keep)
        empty = _empty(table, columns).select(pl.lit(None, names).alias("node"), pl.all())
        found = [
            _named(_at_right_time(parts[name], self.clocks_ns.get(name, 0)), name, names)
            for name in sorted(parts)
        ]
        return pl.concat([empty.clear(), *found])

    def _together(
        self, table: str, columns: Sequence[str], every: int, keep: Keep | None
    ) -> dict[str, pl.DataFrame]:
        """Nodes that can be read in one pass, those that turned out well."""
        found: dict[str, pl.DataFrame] = {}
        if isinstance(self.store, CompactedView):
            with suppress(StoreError):  # asked by itself each node says what is wrong with it
                for name, arrow in self.store.together(table, columns, every):
                    found[name] = _part(_kept(_thinned(arrow, every), name, keep), table, columns)
        return found

    def _of_node(
        self, view: NodeView, table: str, columns: Sequence[str], every: int, keep: Keep | None
    ) -> pl.DataFrame:
        try:
            arrow = _thinned(view.table(table, columns, every), every)
            return _part(_kept(arrow, view.node, keep), table, columns)
        except StoreError as error:
            self.damage.append((f"{table} of {view.node}", str(error)))
            return _empty(table, columns)


def _named(part: pl.DataFrame, name: str, names: pl.Enum) -> pl.DataFrame:
    return part.select(pl.lit(name, names).alias("node"), pl.all())


def _at_right_time(part: pl.DataFrame, late_ns: int) -> pl.DataFrame:
    known = late_ns and "ts_ns" in part.columns
    return part.with_columns(pl.col("ts_ns") + late_ns) if known else part


def _thinned(arrow: Any, every: int) -> Any:
    """Rows of each `every`-th second; before polars sees them, for strings are dear."""
    if every <= 1 or arrow is None or "mono_ns" not in arrow.column_names:
        return arrow
    clock = pl.from_arrow(arrow["mono_ns"])
    assert isinstance(clock, pl.Series)
    return arrow.filter(((clock // 1_000_000_000) % every == 0).to_arrow())


def _kept(arrow: Any, node: str, keep: Keep | None) -> Any:
    """The rows that are wanted; before polars sees them, as in :func:`_thinned`."""
    if keep is None or arrow is None or not {"mono_ns", "interval_ns"} <= {*arrow.column_names}:
        return arrow
    clocks = pl.from_arrow(arrow.select(["mono_ns", "interval_ns"]))
    assert isinstance(clocks, pl.DataFrame)
    return arrow.filter(keep(node, clocks).to_arrow())


def _types(table: str) -> dict[str, pl.DataType]:
    return {column.name: _POLARS_TYPES[column.type] for column in TABLES[table].columns}


def _empty(table: str, columns: Sequence[str]) -> pl.DataFrame:
    types = _types(table)
    return pl.DataFrame(schema={name: types[name] for name in columns})


def _part(arrow: Any, table: str, columns: Sequence[str]) -> pl.DataFrame:
    types = _types(table)
    present = [name for name in columns if arrow is not None and name in arrow.column_names]
    if not present:
        return _empty(table, columns)
    read = pl.from_arrow(arrow.select(present))
    assert isinstance(read, pl.DataFrame)
    return read.select(
        pl.col(name).cast(types[name], strict=False)
        if name in present
        else pl.lit(None, types[name]).alias(name)
        for name in columns
    )
