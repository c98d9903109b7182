"""Reads compacted tables: one Parquet file each, a node's rows in row groups of their own.

Which row groups are a node's stands in the footer (``slurm_io.nodes``: ``{node: {groups: [first,
count], damage: […]}}``). Footers are kept, since a thousand nodes share one; a file that was
replaced meanwhile is opened anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slurm_io.errors import StoreError
from slurm_io.store.compacted import Inside, table_file
from slurm_io.store.conform import check_marks, conform, empty_table
from slurm_io.store.parquet_part import MAX_ROWS, batches, columns_of, load, open_groups, opened
from slurm_io.store.schema import Table
from slurm_io.store.table_files import in_order

MAX_COMPACTED_BYTES = 16 * 1024**4
MAX_FOOTER_BYTES = 512 * 1024 * 1024
NODES_KEY = b"slurm_io.nodes"
NODE_COLUMN = "node"
_Identity = tuple[int, ...]


@dataclass(frozen=True)
class Footer:
    """A compacted file's footer and, for each node, its first row group and how many."""

    metadata: pq.FileMetaData
    groups: dict[str, range]
    damage: dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class CompactedTables:
    """The tables of the nodes in `inside`, each node's rows as many as its marker says."""

    store: Path
    inside: dict[str, Inside]
    _footers: dict[str, tuple[_Identity, Footer]] = field(default_factory=dict, repr=False)

    def read(self, node: str, table: Table, every: int = 1) -> pa.Table:
        """One node's rows, as :func:`slurm_io.store.table_files.read_table` gives them."""
        if not self.inside[node].rows.get(table.name):
            return empty_table(table)
        with self._opened(table) as (path, file, footer):
            groups = self._groups(path, footer, node, table)
            rows = load(file, columns_of(file, table), path, groups, every)
            return in_order(conform(rows, table, str(path)), table)

    def read_together(
        self, nodes: Sequence[str], table: Table, every: int = 1
    ) -> Iterator[tuple[str, pa.Table]]:
        """As :meth:`read` for many nodes, the file opened once; text as codes, in file order."""
        wanted = [node for node in nodes if self.inside[node].rows.get(table.name)]
        if not wanted:
            return
        with self._opened(table) as (path, file, footer):
            names = columns_of(file, table)
            for node in wanted:
                groups = self._groups(path, footer, node, table)
                rows = load(file, names, path, groups, every)
                coded = conform(rows, table, str(path), keep_codes=True)
                yield node, in_order(coded, table)

    def stream(self, node: str, table: Table) -> Iterator[pa.Table]:
        """One node's rows a batch at a time, text as codes."""
        if not self.inside[node].rows.get(table.name):
            return
        with self._opened(table) as (path, file, footer):
            groups = self._groups(path, footer, node, table)
            for batch in batches(file, columns_of(file, table), groups):
                rows = pa.Table.from_batches([batch])
                yield conform(rows, table, str(path), keep_codes=True)

    def damage(self, node: str, table: Table) -> list[dict[str, Any]]:
        """The damage noted when the node's parts of `table` were sealed."""
        if table.name not in self.inside[node].rows:
            return []
        path = self.store / table_file(table.name)
        with opened(path, MAX_COMPACTED_BYTES) as raw:
            return self._footer(path, raw, table).damage.get(node, [])

    @contextmanager
    def _opened(self, table: Table) -> Iterator[tuple[Path, pq.ParquetFile, Footer]]:
        path = self.store / table_file(table.name)
        with opened(path, MAX_COMPACTED_BYTES) as raw:
            footer = self._footer(path, raw, table)
            with open_groups(raw, footer.metadata, table) as file:
                yield path, file, footer

    def _footer(self, path: Path, raw: Any, table: Table) -> Footer:
        facts = os.fstat(raw.fileno())
        identity = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
        known = self._footers.get(table.name)
        if known is None or known[0] != identity:
            known = (identity, read_footer(path, raw, table))
            self._footers[table.name] = known
        return known[1]

    def _groups(self, path: Path, footer: Footer, node: str, table: Table) -> range:
        """The node's row groups; StoreError when they are not what the marker says."""
        groups = footer.groups.get(node, range(0))
        counts = [footer.metadata.row_group(group).num_rows for group in groups]
        if max(counts, default=0) > MAX_ROWS:
            raise StoreError(f"{path} claims {max(counts)} rows in a piece, over {MAX_ROWS}")
        if sum(counts) != self.inside[node].rows[table.name]:
            raise StoreError(
                f"{path} holds {sum(counts)} rows of node {node}, not the "
                f"{self.inside[node].rows[table.name]} it should"
            )
        return groups


def read_footer(path: Path, raw: Any, table: Table) -> Footer:
    """The footer, held against the file's size and kind."""
    raw.seek(-8, os.SEEK_END)
    if int.from_bytes(raw.read(4), "little") > MAX_FOOTER_BYTES:
        raise StoreError(f"{path} has a footer of more than {MAX_FOOTER_BYTES} bytes")
    raw.seek(0)
    metadata = pq.read_metadata(raw)
    check_marks(metadata.metadata, table, str(path))
    try:
        told = json.loads((metadata.metadata or {})[NODES_KEY])
        groups = {node: range(*_bounds(entry["groups"])) for node, entry in told.items()}
        damage = {
            node: [dict(each) for each in entry.get("damage", [])] for node, entry in told.items()
        }
    except (AttributeError, TypeError, ValueError, KeyError, RecursionError) as exc:
        raise StoreError(
            f"{path} does not say which rows are whose: it is no table of ours"
        ) from exc
    if any(each.stop > metadata.num_row_groups for each in groups.values()):
        raise StoreError(f"{path} names row groups it does not have")
    return Footer(metadata, groups, damage)


def _bounds(told: list[int]) -> tuple[int, int]:
    first, count = told
    if first < 0 or count < 0:
        raise ValueError("no row groups")
    return first, first + count
