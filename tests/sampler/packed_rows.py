"""Packed rows of `steps` taken apart again, by the schema and nothing of the product's."""

from __future__ import annotations

import struct

from slurm_io.sampler.rings import Rings
from slurm_io.store.packed import PackedRows
from slurm_io.store.schema import TABLES

_CODES = {"int64": "q", "int32": "i", "float32": "f", "bool": "?"}


def unpacked(block: PackedRows, table: str = "steps") -> list[tuple[object, ...]]:
    """The same rows as tuples."""
    columns = []
    for column, packed in zip(TABLES[table].columns, block.columns, strict=True):
        values = struct.unpack(f"<{block.n_rows}{_CODES[column.type]}", packed.data)
        valid = packed.valid or b"\1" * block.n_rows
        columns.append([v if ok else None for v, ok in zip(values, valid, strict=True)])
    return list(zip(*columns, strict=True))


def drained_steps(rings: Rings) -> list[tuple[object, ...]]:
    """All rows of `steps` of one drain, by time."""
    steps, _events = rings.drain()
    for block in rings.take_packed():
        steps += unpacked(block)
    return sorted(steps)
