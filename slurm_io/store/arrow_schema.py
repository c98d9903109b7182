"""A table of :mod:`slurm_io.store.schema` as pyarrow sees it: for readers and the sealing child.

Never import this from the sampler: pyarrow costs 0.2 s and 40 MiB.
"""

from __future__ import annotations

import pyarrow as pa

from slurm_io.store.schema import SCHEMA_VERSION, Column, Table

_TYPES: dict[str, pa.DataType] = {
    "int64": pa.int64(),
    "int32": pa.int32(),
    "float64": pa.float64(),
    "float32": pa.float32(),
    "string": pa.string(),
    "bool": pa.bool_(),
}
TABLE_KEY = b"slurm_io.table"
SCHEMA_KEY = b"slurm_io.schema"


def pyarrow_field(column: Column) -> pa.Field:
    """One column, nullability included."""
    return pa.field(column.name, _TYPES[column.type], nullable=column.nullable)


def pyarrow_schema(table: Table) -> pa.Schema:
    """The table's columns in storage order, marked with table name and schema version."""
    return pa.schema(
        [pyarrow_field(column) for column in table.columns],
        metadata={TABLE_KEY: table.name.encode(), SCHEMA_KEY: str(SCHEMA_VERSION).encode()},
    )


def coded_schema(table: Table) -> pa.Schema:
    """As :func:`pyarrow_schema` with text as a dictionary and its codes."""
    schema = pyarrow_schema(table)
    coded = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [field.with_type(coded) if field.type == pa.string() else field for field in schema],
        metadata=schema.metadata,
    )
