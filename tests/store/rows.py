"""Made-up rows for any table, and the file damage the store's tests need."""

from __future__ import annotations

import os
import random
from pathlib import Path

from hypothesis import strategies as st

from slurm_io.store.schema import TABLES, Column, Table
from slurm_io.store.streams import Row, StreamWriter

_SIMPLE = {"int64": 7, "int32": 3, "float64": 0.5, "float32": 0.25, "string": "x", "bool": True}


def plain_row(table: Table, index: int) -> Row:
    """A row whose clocks are `index`, every other cell a constant of its type."""
    return (index, index, *(_SIMPLE[column.type] for column in table.columns[2:]))


def random_row(table: Table, index: int, rng: random.Random) -> Row:
    """As :func:`plain_row` with changing cells and nulls where the schema allows them."""
    return (index, index, *(_random_cell(column, rng) for column in table.columns[2:]))


def _random_cell(column: Column, rng: random.Random) -> object:
    if column.nullable and rng.random() < 0.3:
        return None
    makers = {
        "int64": lambda: rng.randrange(-(2**63), 2**63),
        "int32": lambda: rng.randrange(-(2**31), 2**31),
        "float64": lambda: rng.uniform(-1e9, 1e9),
        "float32": lambda: float(rng.randrange(-1000, 1000)),
        "string": lambda: rng.choice(["", "nvme0n1", "/data/é", "日本語", "a" * 200]),
        "bool": lambda: rng.random() < 0.5,
    }
    return makers[column.type]()


_CELLS: dict[str, st.SearchStrategy[object]] = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "float64": st.floats(),
    "float32": st.floats(width=32),
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "bool": st.booleans(),
}


def rows_of(table: Table) -> st.SearchStrategy[list[Row]]:
    """Any rows the schema allows."""
    cells = [
        st.none() | _CELLS[column.type] if column.nullable else _CELLS[column.type]
        for column in table.columns
    ]
    return st.lists(st.tuples(*cells), max_size=20)


def write_stream(path: Path, table: Table, batches: list[list[Row]], close: bool = True) -> None:
    """A stream file with the given batches; `close` False leaves it as a killed writer would."""
    writer = StreamWriter(path, table)
    for batch in batches:
        for row in batch:
            writer.append(row)
        writer.flush()
    if close:
        writer.close()
    else:
        os.close(writer._fd)


LOG = TABLES["log"]
STEPS = TABLES["steps"]
