"""All rows of one table of one node folder, whatever state its parts are in.

Sealed parts are Parquet; a part not sealed yet is a stream. When both are there (sealing was
interrupted before it removed the stream) the Parquet form is whole and counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slurm_io.errors import StoreError
from slurm_io.store.conform import check_marks, conform, empty_table
from slurm_io.store.parquet_part import MAX_LOADED_BYTES, read_part
from slurm_io.store.parts import Part, list_parts
from slurm_io.store.recover import Damage, recover_stream
from slurm_io.store.schema import TABLES, Table


def effective_parts(folder: Path) -> list[Part]:
    """The parts that count, streams left out whose sealed form is there."""
    parts = list_parts(folder)
    sealed = {(part.table, part.number) for part in parts if part.suffix == "parquet"}
    return [
        part
        for part in parts
        if part.suffix == "parquet" or (part.table, part.number) not in sealed
    ]


def read_table(
    folder: Path | None, table: Table, columns: Sequence[str] | None = None, every: int = 1
) -> pa.Table:
    """Every row of `table`, sorted by ts_ns; no rows when `folder` is None or has none.

    `columns` reads only the clocks and these, in schema order; `every` only the rows of each so
    many-th second.
    """
    table = narrowed(table, columns)
    if folder is None:
        return empty_table(table)
    parts = effective_parts(folder)
    try:
        return _read_parts(folder, parts, table, every)
    except StoreError:
        if effective_parts(folder) == parts:
            raise
    # Rotated or sealed under our hands: the parts have other names now.
    return _read_parts(folder, effective_parts(folder), table, every)


def _read_parts(folder: Path, parts: list[Part], table: Table, every: int) -> pa.Table:
    tables = [empty_table(table)]
    loaded_bytes = 0
    for part in parts:
        if part.table != table.name:
            continue
        tables.append(read_any_part(folder, part, table, every)[0])
        loaded_bytes += tables[-1].nbytes
        if loaded_bytes > MAX_LOADED_BYTES:
            raise StoreError(f"{folder}: table {table.name} is over {MAX_LOADED_BYTES} bytes")
    return in_order(pa.concat_tables(tables), table)


def in_order(rows: pa.Table, table: Table) -> pa.Table:
    """Sorted by ts_ns, untouched when they are already."""
    return rows if _is_sorted(rows["ts_ns"]) else sorted_rows(rows, table)


def narrowed(table: Table, names: Sequence[str] | None) -> Table:
    """The clocks and the named columns of `table`; all of them for None."""
    if names is None:
        return table
    unknown = sorted(set(names) - set(table.column_names()))
    if unknown:
        raise StoreError(f"table {table.name} has no column {', '.join(unknown)}")
    wanted = {"ts_ns", "mono_ns", *names}
    return replace(table, columns=tuple(c for c in table.columns if c.name in wanted))


def _is_sorted(clock: pa.ChunkedArray) -> bool:
    """Sealed parts are; so a long job, whose parts follow one another, need not be sorted again."""
    values = clock.combine_chunks()
    if len(values) < 2:
        return True
    return bool(pc.all(pc.greater_equal(values.slice(1), values.slice(0, len(values) - 1))).as_py())


def sorted_rows(rows: pa.Table, table: Table) -> pa.Table:
    """By time, then by the table's key."""
    names = [name for name in ("ts_ns", *table.key) if name in rows.schema.names]
    return rows.sort_by([(name, "ascending") for name in names])


def read_any_part(
    folder: Path, part: Part, table: Table, every: int = 1
) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Rows and damage of one part, sealed or not; `every` thins the sealed, which are long."""
    path = folder / part.file_name
    if part.suffix == "parquet":
        return read_part(path, table, every)
    rows, damage = read_stream(path, table)
    return rows, [damage.to_dict()] if damage is not None else []


def read_stream(path: Path, table: Table) -> tuple[pa.Table, Damage | None]:
    """Rows of a stream up to its damage, in today's schema."""
    found = recover_stream(path)
    if found.schema is None:
        return empty_table(table), found.damage
    check_marks(found.schema.metadata, table, str(path))
    rows = pa.Table.from_batches(found.batches, schema=found.schema)
    return conform(rows, table, str(path)), found.damage


def read_damage(folder: Path) -> list[dict[str, Any]]:
    """Damage of the parts that are not sealed yet; that of sealed ones stands in meta.json."""
    found = []
    for part in effective_parts(folder):
        if part.suffix == "arrows" and part.table in TABLES:
            damage = recover_stream(folder / part.file_name).damage
            if damage is not None:
                found.append(damage.to_dict())
    return found
